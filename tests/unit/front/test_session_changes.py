"""Clients of a router of several shards when the map changes, and when shards are away or lost."""

from dataclasses import replace

import pytest

from beanpole.front.limits import KEPT_WAIT_NS
from beanpole.shards.map import Places
from tests.seeds import seeds
from tests.unit.front.shard_world import Client, World, made
from tests.unit.front.test_session import FIRST, THREE, A, B, C, put


@pytest.fixture
def client() -> Client:
    return World(THREE).client()


def test_with_another_map_a_client_is_as_it_was() -> None:
    """One shard becomes three: what it uses and watches goes with it, and jobs are found where they were."""
    world = World(made(A))
    client = world.client()
    client.ask(b"use mail\r\nwatch mail\r\nwatch text\r\nignore default\r\n" + put(b"old"))
    older = world.places.map
    world.use(Places(replace(made(A, B, C, mail="b", text="c").map, epoch=2, before=(older,))))
    assert client.ask(put(b"new") + b"list-tube-used\r\n") == b"INSERTED %d\r\nUSING mail\r\n" % FIRST["b"]
    assert {client.ask(b"reserve\r\n").split(b"\r\n")[1] for _ in range(2)} == {b"old", b"new"}
    assert client.ask(b"list-tubes-watched\r\n").endswith(b"---\n- mail\n- text\n\r\n")
    world.use(Places(replace(made(A, B, C, mail="b", text="c").map, epoch=3)))
    other = world.client()
    other.ask(b"use text\r\n" + put(b"t"))
    assert client.ask(b"reserve\r\n").endswith(b"\r\nt\r\n")


def test_who_waits_under_an_older_map_gets_the_job_of_the_new_home() -> None:
    """Told shards need not be: the reserve is cancelled where it waits, and goes on at all places."""
    world = World(made(A))
    worker = world.client()
    worker.ask(b"watch text\r\nignore default\r\n")
    assert worker.ask(b"reserve\r\n") == b""
    older = world.places.map
    world.use(Places(replace(made(A, B, C, text="c").map, epoch=2, before=(older,))))
    world.settle()
    assert worker.take() == b""
    other = world.client()
    other.ask(b"use text\r\n" + put(b"x"))
    world.settle()
    assert worker.take() == b"RESERVED %d 1\r\nx\r\n" % FIRST["c"]
    assert worker.ask(b"list-tubes-watched\r\n").endswith(b"- text\n\r\n")


def test_who_waits_at_several_shards_waits_where_another_map_has_its_tube() -> None:
    """The commands by which shards learn of the new map do not put replies out of step."""
    world = World(made(A, B, C, mail="ab", push="b", default="a"))
    worker, other = world.client(), world.client()
    worker.ask(b"watch mail\r\nignore default\r\n")
    assert worker.ask(b"reserve\r\n") == b""
    world.use(Places(replace(made(A, B, C, mail="ac", push="b", default="a").map, epoch=2, before=(world.places.map,))))
    world.settle()
    assert worker.take() == b""
    for name in (b"a", b"c"):
        assert other.ask(b"use mail\r\n" + put(name))[-2:] == b"\r\n"
        world.settle()
        assert worker.take()[-3:] == name + b"\r\n"
        assert worker.ask(b"list-tube-used\r\nreserve\r\n") == b"USING default\r\n"


@pytest.mark.parametrize("seed", seeds(20, "ROUTE_SEED"))
def test_a_job_that_is_under_way_when_the_map_changes_is_not_lost(seed: int) -> None:
    world = World(made(A), seed)
    worker, other = world.client(), world.client()
    worker.ask(b"watch text\r\nignore default\r\n")
    worker.ask(b"reserve\r\n")
    other.send(b"use text\r\n" + put(b"x"))
    for _ in range(world.random.randrange(4)):
        world.step()
    world.use(Places(replace(made(A, B, C, text="c").map, epoch=2, before=(world.places.map,))))
    world.settle()
    assert worker.take() == b"RESERVED 1 1\r\nx\r\n"


def test_what_asks_those_that_are_there_goes_on_when_one_is_lost(client: Client) -> None:
    client.ask(b"watch mail\r\nwatch push\r\n")
    client.send(b"list-tubes\r\n")
    client.session.take_asked()
    assert client.lose("b")
    for name in "ac":
        client.lanes[name].receive(1, b"list-tubes\r\n")
    client.world.settle()
    assert client.take().startswith(b"OK ")


KEEP = b"keep-session 60 0123456789abcdef0123456789abcdef\r\n"


@pytest.mark.parametrize("is_back", [True, False])
def test_who_returns_waits_a_while_for_a_shard_that_may_have_its_jobs(client: Client, *, is_back: bool) -> None:
    client.world.away = {"b"}
    assert client.ask(KEEP + b"cancel-reserve\r\n") == b""
    client.world.away -= {"b"} if is_back else set()
    if is_back:
        client.session.find(B)
        client.world.settle()
    else:
        client.world.tick(KEPT_WAIT_NS)
    assert client.take() == b"KEPT 0\r\nNOT_WAITING\r\n"


def test_who_returns_asks_a_shard_again_that_was_lost_before_it_answered(client: Client) -> None:
    client.send(KEEP)
    client.session.take_asked()
    client.world.away = {"b"}
    assert client.lose("b")
    for name in "ac":
        client.lanes[name].receive(1, KEEP)
    client.world.settle()
    assert client.take() == b""
    client.world.away = set()
    client.session.find(B)
    client.world.settle()
    assert client.take() == b"KEPT 0\r\n"


def test_a_shard_that_comes_later_keeps_the_session_too(client: Client) -> None:
    client.world.away = {"b"}
    client.send(KEEP)
    client.world.tick(KEPT_WAIT_NS)
    assert client.take() == b"KEPT 0\r\n"
    client.world.away = set()
    client.session.find(B)
    assert client.session.take_asked()["b"] == KEEP


def test_a_lost_shard_closes_only_who_waits_for_it(client: Client) -> None:
    client.ask(b"use push\r\n" + put(b"x"))
    assert client.lose("b")
    assert client.ask(b"use mail\r\n" + put(b"x")) == b"USING mail\r\nINSERTED 1\r\n"
    client.send(b"delete %d\r\n" % FIRST["b"])
    client.session.take_asked()
    assert not client.lose("b")


@pytest.mark.parametrize("command", [b"list-tubes\r\n", b"stats\r\n", b"list-extensions\r\n"])
def test_what_asks_those_that_are_there_waits_while_none_is(client: Client, command: bytes) -> None:
    client.world.away = {"a", "b", "c"}
    assert client.ask(command) == b""
    client.world.away = set()
    client.session.find(B)
    client.session.take_asked()
    for name in "abc":  # it is asked again when none has answered
        assert client.lose(name)
    client.world.settle()
    assert client.take().startswith(b"OK ")


def test_a_channel_in_place_of_a_lost_one_is_told_of_the_session() -> None:
    client = World(made(A)).client()
    client.ask(b"use mail\r\nwatch mail\r\nignore default\r\n")
    assert client.lose("a")
    shown = client.ask(b"list-tube-used\r\nlist-tubes-watched\r\n")
    assert shown == b"USING mail\r\nOK 11\r\n---\n- mail\n\r\n"


def test_a_reserve_that_has_its_job_waits_for_nothing_more_of_a_shard_that_is_lost() -> None:
    """When the map changes a cancel-reserve is sent behind it; its reply need not come."""
    world = World(made(A))
    worker = world.client()
    worker.ask(b"reserve\r\n")
    world.use(Places(replace(made(A, B, C).map, epoch=2, before=(world.places.map,))))
    worker.session.take(A, b"RESERVED 1 1\r\nx\r\n")
    assert worker.lose("a")
    assert worker.session.take_out() == b"RESERVED 1 1\r\nx\r\n"


def test_a_kept_session_whose_job_was_under_way_over_a_lost_link_has_to_return_for_it(client: Client) -> None:
    """The shard keeps a job for it of which the client was not told."""
    client.ask(b"keep-session 60 0123456789abcdef0123456789abcdef\r\nwatch mail\r\nwatch push\r\n")
    client.send(b"reserve-with-timeout 0\r\n")
    (asked,) = client.session.take_asked()
    assert not client.lose(asked)


def test_jobs_of_a_spread_tube_pass_over_a_shard_that_has_said_that_it_drains(client: Client) -> None:
    client.world.engines["b"].draining = True
    client.ask(b"use spread\r\n")
    replies = [client.ask(put(b"x")).split()[0] for _ in range(9)]
    assert replies.count(b"DRAINING") == 1
    assert replies.count(b"INSERTED") == 8


def test_a_tube_that_a_client_used_is_gone_when_it_uses_one_of_another_shard(client: Client) -> None:
    client.ask(b"use mail\r\npause-tube mail 1000\r\n" + put(b"x") + b"use text\r\n")
    id = FIRST["a"]
    assert client.ask(b"delete %d\r\nreserve-with-timeout 0\r\n" % id) == b"DELETED\r\nTIMED_OUT\r\n"
    assert client.ask(b"stats-tube mail\r\n").startswith(b"OK ")
    assert client.session.let_go()
    assert client.ask(b"stats-tube mail\r\n") == b"NOT_FOUND\r\n"
    assert not client.session.let_go()
