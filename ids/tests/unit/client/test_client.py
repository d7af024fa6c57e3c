"""Both clients against nodes that are silent, slow, wrong or gone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beanpole_ids import limits
from beanpole_ids.client import IdClient
from beanpole_ids.client.calls import Node, Nodes, read_url
from beanpole_ids.errors import ArgumentError, IdServiceError, NoNodeError, UnexpectedReplyError
from tests.unit.client.node import (
    TIMEOUT_S,
    AnyClient,
    Asked,
    Asyncio,
    Uvloop,
    closed_port,
    counting,
    node,
    reply,
    silent,
)

Make = Callable[..., AnyClient]


@pytest.fixture(params=[IdClient, Asyncio, Uvloop])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes clients that begin with the first node, and closes them."""
    made: list[AnyClient] = []

    def make_one(nodes: Any, **options: Any) -> AnyClient:  # noqa: ANN401 - what the client takes
        made.append(request.param(nodes, **{"timeout": TIMEOUT_S, "chance": lambda: 0.0} | options))
        return made[-1]

    yield make_one
    for each in made:
        each.close()


def test_request_and_number(make: Make) -> None:
    with node(counting) as one:
        client = make(one.address)
        assert client.get("order", "shop") == "0"
        assert client.get("order", "größe", salt="x") == "1"
        first, second = one.asked
        assert first.pop("seq") == first.pop("request_id")
        assert first == {"action": "get", "rule_name": "order", "app_name": "shop"}
        assert (second["app_name"], second["salt"]) == ("größe", "x")
        assert client.monitor("order", "shop") == {"counter": 2}


def test_names_of_requests_differ(make: Make) -> None:
    with node(counting) as one:
        for _ in range(20):
            make(one.address).get("order", "shop")
        names = {each["request_id"] for each in one.asked}
        assert len(names) == 20
        assert {len(each) for each in names} == {32}


def test_many_are_asked_for_in_pieces(make: Make) -> None:
    with node(counting) as one:
        client = make(one.address)
        assert len(set(client.get_many("order", "shop", 2500))) == 2500
        assert [each["count"] for each in one.asked] == [1000, 1000, 500]
        assert client.get_many("order", "shop", 1) == ["3-0"]
        wrong: list[Any] = [0, -1, True, 1.5, "1"]
        for count in wrong:
            with pytest.raises(ArgumentError):
                client.get_many("order", "shop", count)


def test_strays_are_dropped(make: Make) -> None:
    def script(asked: Asked, number: int) -> list[bytes]:
        strays = [b"", b"x", b"[]", b"\xff", b"{}", reply({"seq": "other"}, data="wrong"), reply({}, data="wrong")]
        strays.append(reply(asked | {"seq": 1}, data="wrong"))
        return [*strays, *counting(asked, number)]

    with node(script) as one:
        assert make(one.address).get("order", "shop") == "0"


def test_only_strays_are_no_answer(make: Make) -> None:
    with node(lambda _, __: [b"x"] * 100) as one, pytest.raises(NoNodeError):
        make(one.address, timeout=0.05, rounds=1).get("order", "shop")


def test_silent_node_is_asked_again_with_the_same_name(make: Make) -> None:
    with node(silent) as one:
        with pytest.raises(NoNodeError) as caught:
            make(one.address, timeout=0.25, rounds=3).get("order", "shop")  # time enough to send it, each time
        assert str(Node(*one.address)) in str(caught.value)
        assert isinstance(caught.value, ConnectionError)
    assert len(one.asked) == 3  # it has read all that was sent when it is closed
    assert len({each["request_id"] for each in one.asked}) == 1


def test_repetition_gets_what_the_first_sending_got(make: Make) -> None:
    given: dict[str, bytes] = {}

    def script(asked: Asked, _: int) -> list[bytes]:
        is_known = asked["request_id"] in given
        answer = given.setdefault(asked["request_id"], reply(asked, data=str(len(given))))
        return [answer] if is_known else []

    with node(script) as one:
        client = make(one.address, timeout=0.1, rounds=100)
        assert [client.get("order", "shop") for _ in range(3)] == ["0", "1", "2"]
        assert len(one.asked) >= 6


def test_next_node_is_asked_and_stays_the_first(make: Make) -> None:
    with node(silent) as one, node(counting) as two:
        client = make([one.address, two.address], timeout=2)  # time enough for the second one
        assert [client.get("order", "shop") for _ in range(3)] == ["0", "1", "2"]
    assert len(one.asked) == 1


def test_closed_port_costs_no_time(make: Make) -> None:
    with node(counting) as two, closed_port() as closed:
        client = make([closed, two.address])
        assert [client.get("order", "shop") for _ in range(3)] == ["0", "1", "2"]


def test_closed_ports_are_tried_again_after_a_pause(make: Make) -> None:
    with closed_port() as one, closed_port() as two, pytest.raises(NoNodeError, match=r"refused"):
        make([one, two], timeout=0.5, rounds=2).get("order", "shop")


def test_late_answer_is_dropped(make: Make) -> None:
    late: list[bytes] = []

    def script(asked: Asked, number: int) -> list[bytes]:
        late.append(reply(asked, data=f"{number}"))
        return late if number else []

    with node(script) as one:
        client = make(one.address, timeout=0.5, rounds=1)
        with pytest.raises(NoNodeError):
            client.get("order", "shop")
        be_patient(client)
        assert client.get("order", "shop") == "1"
        assert client.get("order", "shop") == "2"


def be_patient(client: AnyClient) -> None:
    """Lets a client that has given up wait for the next answers as long as they take."""
    (client if isinstance(client, IdClient) else client._client)._timeout_s = TIMEOUT_S


def refusing(code: int, **more: object) -> Callable[[Asked, int], list[bytes]]:
    """Answers that there is no number."""
    return lambda asked, _: [reply(asked, code=code, message="why", **more)]


def test_wrong_request_is_raised_at_once(make: Make) -> None:
    with node(refusing(-1)) as one, node(counting) as two:
        with pytest.raises(IdServiceError, match="why") as caught:
            make([one.address, two.address]).get("none", "shop")
        assert caught.value.code == -1
        assert not two.asked


@pytest.mark.parametrize("code", [-2, -3, -4])
def test_node_without_numbers_is_passed_over(make: Make, code: int) -> None:
    with node(refusing(code, resets_at="2026-11-22T00:00:00+00:00")) as one, node(counting) as two:
        assert make([one.address, two.address]).get("order", "shop") == "0"
        with pytest.raises(IdServiceError) as caught:
            make([one.address, one.address]).get("order", "shop")
        assert (caught.value.code, caught.value.resets_at) == (code, "2026-11-22T00:00:00+00:00")
        assert len(one.asked) == 3


def test_service_without_count_is_found_out(make: Make) -> None:
    def script(asked: Asked, number: int) -> list[bytes]:
        return [reply(asked, data=str(number))]

    with node(script) as one:
        client = make(one.address)
        assert client.get("order", "shop") == "0"
        with pytest.raises(UnexpectedReplyError, match="knows no `count`"):
            client.get_many("order", "shop", 2)


def test_number_that_is_none_is_found_out(make: Make) -> None:
    with node(lambda asked, _: [reply(asked, data=None)]) as one, pytest.raises(UnexpectedReplyError):
        make(one.address).get("order", "shop")


def test_wrong_arguments(make: Make) -> None:
    with pytest.raises(ArgumentError):
        make([])
    with pytest.raises(ArgumentError):
        make("ids://a", timeout=0)
    with pytest.raises(ArgumentError):
        make("ids://a", rounds=0)
    client = make("ids://127.0.0.1:9")
    with pytest.raises(ArgumentError, match="at most 20459 bytes"):
        client.get("order", "a" * 30_000)
    with pytest.raises(ArgumentError):
        client.get("order", "\ud800")
    with pytest.raises(ArgumentError):
        client.range("order", "shop", 0)


def test_closed_client_says_so(make: Make) -> None:
    with node(counting) as one:
        client = make(one.address)
        client.get("order", "shop")
        if isinstance(client, IdClient):
            client.close()
            with pytest.raises(RuntimeError, match="closed"):
                client.get("order", "shop")


def test_urls() -> None:
    assert read_url("ids://a:1,b,[::1]:2,[::1]") == [
        Node("a", 1),
        Node("b", limits.PORT_DEFAULT),
        Node("::1", 2),
        Node("::1", limits.PORT_DEFAULT),
    ]
    assert [str(each) for each in read_url("ids://a:1,[::1]:2")] == ["a:1", "[::1]:2"]
    for wrong in ("", "ids://", "ids://a,", "http://a", "ids:a", "ids://a:x", "ids://a/b", "ids://u@a", "ids://::1"):
        with pytest.raises(ArgumentError, match="ids://host:port"):
            read_url(wrong)
    for wrong in ("ids://a:0", "ids://a:1,b:65536"):
        with pytest.raises(ArgumentError, match="a port is 1 to 65535"):
            read_url(wrong)


def test_first_node_is_any() -> None:
    nodes = [("a", 1), ("b", 2), ("c", 3)]
    chances = iter((0.0, 0.34, 0.67, 0.99))
    assert [Nodes(nodes, chances.__next__).order()[0].host for _ in range(4)] == ["a", "b", "c", "c"]


def test_a_cookie_is_sent_back_at_once(make: Make) -> None:
    """A node that does not trust our address gives many numbers only to those who have its cookie."""

    def script(asked: Asked, number: int) -> list[bytes]:
        if asked.get("cookie") != "fresh" and "count" in asked:
            return [reply(asked, code=-6, message="cookie: ...", cookie="fresh")]
        return counting(asked, number)

    with node(script) as one:
        client = make(one.address)
        assert client.get_many("order", "shop", 2) == ["1-0", "1-1"]
        assert [each.pop("cookie", None) for each in one.asked] == [None, "fresh"]
        assert one.asked[0] == one.asked[1], "the same request, so that it gets the same numbers"
        assert client.get_many("order", "shop", 2) == ["2-0", "2-1"], "the cookie is kept"
        assert client.get("order", "shop") == "3"


def test_a_cookie_that_does_not_help_is_a_refusal(make: Make) -> None:
    def script(asked: Asked, number: int) -> list[bytes]:
        return [reply(asked, code=-6, message="cookie: ...", cookie=["x" * 1000, 7, str(number)][min(number, 2)])]

    with node(script) as one, node(counting) as other:
        client = make([one.address, other.address])
        assert client.get_many("order", "shop", 1) == ["0-0"], "another node may have the numbers"
        assert len(one.asked) == 1, "that was no cookie"
        for asked_count in (2, 4):
            with pytest.raises(IdServiceError) as refused:
                make([one.address]).get_many("order", "shop", 1)
            assert refused.value.code == -6
            assert len(one.asked) == asked_count, "one that was no cookie; then one that did not help"


def test_a_limit_is_an_answer_of_all_nodes(make: Make) -> None:
    def script(asked: Asked, _: int) -> list[bytes]:
        return [reply(asked, code=-5, message="limit: ...", retry_s=0.25)]

    with node(script) as one, node(counting) as other:
        with pytest.raises(IdServiceError) as refused:
            make([one.address, other.address]).get("order", "shop")
        assert (refused.value.code, refused.value.retry_s, other.asked) == (-5, 0.25, [])
