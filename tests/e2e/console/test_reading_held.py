"""Held jobs, sessions and rules, of Beanpole and of beanstalkd."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from beanpole.client import Client
from beanpole.console.reading import held, rules, sessions
from beanpole.console.reading.held import Held
from beanpole.console.reading.sessions import FoundSessions, SessionFilter
from beanpole.console.servers import Server as Seen
from tests.e2e.console.looking import look
from tests.e2e.process import wait_until
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

NAME = 'w1 <b>"), last heard of 9 s ago; 9 s of\\ \u202e: # x'
"""What a worker calls itself that means no good."""


@contextmanager
def workers(server: Server, *names: str) -> Iterator[list[Client[bytes]]]:
    """Clients with names."""
    with ExitStack() as stack:
        yield [stack.enter_context(Client(f"{HOST}:{server.port}", None, name=each or None)) for each in names]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with two workers that hold jobs, one that waits, and rules; no test changes it."""
    with beanpole_server() as running, workers(running, "", NAME, "w2", "w3") as (client, first, second, third):
        client.set_rules("*", "jobs-max: 1000")
        client.set_rules("mail-*", "attempts: 3\ndead: grave")
        client.set_rules("mail-eu", "")
        client.put_many([b"x"] * 30, ttr=600, tube="mail-eu")
        client.put(b"long", ttr=6_000, tube="mail-us")
        for each, tube, count in ((first, "mail-eu", 12), (second, "mail-us", 1), (second, "mail-eu", 2)):
            each.features()
            each.watch(tube)
            each.ignore("default")
            for _ in range(count):
                each.reserve(0)
            each.watch("default")
            each.ignore(tube)
        with third.pipeline() as sent:  # its reserve waits; nobody reads the answer
            sent.watch("seldom")
            third.features()
        yield running


def found(server: Server, tube: str = "") -> Held:
    """What is held."""
    return look(server, lambda seen: held.find(seen, tube))


def test_held_jobs_say_by_whom_and_how_long(server: Server) -> None:
    seen = found(server)
    assert seen.total == len(seen.jobs) == 15
    assert seen.is_complete
    assert seen.missing == ()
    assert [(each.name, each.count, len(each.jobs)) for each in seen.workers] == [(NAME, 12, 12), ("w2", 3, 3)]
    for each in seen.jobs:
        assert each.job.tube in {"mail-eu", "mail-us"}
        assert 0 <= each.ran_s < each.job.ttr
        assert 0 <= each.share < 1
        assert each.ran_s + each.left_s == pytest.approx(each.job.ttr)
        assert each.peer.startswith(HOST)
        assert each.record["session"] == each.session
    assert [each.ran_s for each in seen.jobs] == sorted((each.ran_s for each in seen.jobs), reverse=True)


def test_held_jobs_of_a_tube(server: Server) -> None:
    seen = found(server, "mail-us")
    assert [(each.job.tube, each.name) for each in seen.jobs] == [("mail-us", "w2")]
    assert seen.total == 1
    assert [(each.name, len(each.jobs)) for each in seen.workers] == [("w2", 1)]
    assert found(server, "nothing").jobs == []


def test_beanstalkd_says_how_many_are_held() -> None:
    with beanstalkd_server() as server, Client(f"{HOST}:{server.port}", None) as client:
        client.put(b"x")
        client.reserve(0)
        seen = found(server)
        assert (seen.total, seen.jobs, seen.missing) == (1, [], (held.NEEDS,))
        assert [each.name for each in seen.tubes] == ["default"]


def sessions_of(server: Server, wanted: SessionFilter) -> FoundSessions:
    """A page of sessions."""
    return look(server, lambda seen: sessions.find(seen, wanted))


def names(server: Server, wanted: SessionFilter) -> list[str]:
    """Their names."""
    return [each.name for each in sessions_of(server, wanted).sessions]


def test_sessions_by_what_they_do(server: Server) -> None:
    everybody = sessions_of(server, SessionFilter())
    assert everybody.is_complete
    assert everybody.looked == everybody.fitting == len(everybody.sessions)
    assert [each.number for each in everybody.sessions] == sorted(each.number for each in everybody.sessions)
    assert names(server, SessionFilter(holding=True)) == [NAME, "w2"]
    assert names(server, SessionFilter(text="W2")) == ["w2"]
    assert names(server, SessionFilter(text="<b>")) == [NAME]
    assert names(server, SessionFilter(tube="seldom")) == ["w3"]
    assert names(server, SessionFilter(tube="nothing")) == []
    assert names(server, SessionFilter(waiting=True)) == []
    number = sessions_of(server, SessionFilter(text="w2")).sessions[0].number
    assert names(server, SessionFilter(number=number)) == ["w2"]
    assert names(server, SessionFilter(number=number + 1_000)) == []
    alone = sessions_of(server, SessionFilter(number=number))
    assert (alone.looked, alone.next, alone.is_complete) == (1, None, True)
    by_held = sessions_of(server, SessionFilter(order="held")).sessions
    assert [each.name for each in by_held[:2]] == [NAME, "w2"]


def test_pages_of_sessions(server: Server) -> None:
    seen: list[str] = []
    after = None
    while True:
        page = sessions_of(server, SessionFilter(text="w", after=after, limit=1))
        seen += [each.name for each in page.sessions]
        if page.next is None:
            break
        after = page.next
    assert seen == [NAME, "w2", "w3"]
    longest = sessions_of(server, SessionFilter(text="w", order="silent", limit=1))
    assert (longest.fitting, longest.next, len(longest.sessions)) == (3, None, 1)


def test_who_waits() -> None:
    with beanpole_server() as server, server.connect() as first, server.connect() as second:
        first.sendall(b"watch mail\r\nname-session first\r\nreserve\r\n")
        second.sendall(b"".join(b"watch tube-%d\r\n" % number for number in range(30)) + b"reserve\r\n")
        with Client(f"{HOST}:{server.port}", None) as client:
            wait_until(lambda: client.stats().current_waiting == 2, "both wait")
        mail = look(server, lambda seen: sessions.who_waits(seen, "mail"))
        assert [each.name for each in mail.sessions] == ["first"]
        assert not mail.is_complete  # the other may watch it too: the server names 20 tubes
        default = look(server, lambda seen: sessions.who_waits(seen, "default"))
        assert len(default.sessions) == 2
        assert default.is_complete
        assert len(sessions_of(server, SessionFilter(waiting=True)).sessions) == 2


def test_beanstalkd_names_no_sessions_and_no_rules() -> None:
    with beanstalkd_server() as server:
        assert sessions_of(server, SessionFilter()).missing == sessions.NEEDS
        assert look(server, lambda seen: sessions.who_waits(seen, "default")).missing == sessions.NEEDS
        assert look(server, rules.all_rules) == []
        assert not look(server, rules.has_rules)
        assert look(server, lambda seen: rules.rules_of(seen, "default")) is None


def test_rules_and_the_tubes_that_have_them(server: Server) -> None:
    found = look(server, rules.all_rules)
    assert [(each.pattern, each.tubes) for each in found] == [
        ("*", ["default", "seldom"]),
        ("mail-*", ["mail-us"]),
        ("mail-eu", ["mail-eu"]),
    ]
    assert dict(found[1].rules) == {"attempts": "3", "dead": "grave"}

    async def ask(seen: Seen) -> list[str | None]:
        asked = [await rules.rules_of(seen, tube) for tube in ("mail-fr", "mail-eu", "seldom", "new")]
        return [None if each is None else each.pattern for each in asked]

    assert look(server, ask) == ["mail-*", "mail-eu", "*", "*"]


def test_pattern_for_a_tube() -> None:
    assert rules.pattern_for("mail-eu", ["*", "mail-*", "mail-e*"]) == "mail-e*"
    assert rules.pattern_for("mail-eu", ["mail-eu", "mail-eu*"]) == "mail-eu"
    assert rules.pattern_for("mail-eu", ["mail-eu*", "m*"]) == "mail-eu*"
    assert rules.pattern_for("files", ["*"]) == "*"
    assert rules.pattern_for("files", ["mail-*"]) is None
