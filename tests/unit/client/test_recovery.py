"""A client that has lost its connection dials again, and what may be sent twice goes on over the next one."""

import logging
import math
import socket
from collections.abc import Callable
from typing import Any

import pytest

from beanpole import (
    ArgumentError,
    Backoff,
    CannotConnectError,
    ConnectionLostError,
    JobLostError,
    NotFoundError,
    TimedOutError,
)
from beanpole.address import Address
from beanpole.client.batch import reserve_many_call, wait_for_job_call
from beanpole.client.codec import TextCodec
from beanpole.client.recovery import SAFE, Outage, Retry, safe_s
from beanpole.client.session import Session
from beanpole.protocol import commands, extensions, wire
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call
from tests.unit.client.peer import ALIVE, ASK, CLOSE, NONE, RESET, Maker, Peer, Steps, has, listing
from tests.unit.client.test_connection import PUT, SOON, nobody  # noqa: F401 - a fixture

INSERTED = (PUT, b"INSERTED 1\r\n")
JOB = b"RESERVED 7 1\r\nx\r\n"
FAST = Backoff(attempts=2, first_s=0.001, max_s=0.01)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


HARMFUL = {
    *("put", "release", "bury", "delete", "touch", "kick", "kick-job", "pause-tube", "quit", "reserve-job"),
    *("put-job", "fail-job", "snooze-job", "change-job", "change-body", "clear-tube", "move-jobs", "cancel-reserve"),
    *("touch-many", "delete-many", "set-rules", "drop-rules", "name-session", "cancel-job", "cancel-key"),
    *("set-schedule", "drop-schedule", "pause-schedule", "fire-schedule", "pause-group", "auth"),
}
"""What a client sends once, or not over two connections."""


def test_of_each_command_it_is_known_whether_it_may_be_sent_twice() -> None:
    verbs = {text.split()[0].decode() for text, *_ in commands.COMMANDS}
    verbs |= {verb.decode() for verb, *_ in extensions.EXTENSIONS}
    assert {each.decode() for each in SAFE} == verbs - HARMFUL


# --- The calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [CLOSE, RESET])
@pytest.mark.parametrize(
    ("sent", "answer", "call"),
    [
        (b"watch t\r\n", b"WATCHING 7\r\n", lambda client: client.watch("t")),
        (b"ignore t\r\n", b"WATCHING 7\r\n", lambda client: client.ignore("t")),
        (b"peek 7\r\n", b"FOUND 7 0\r\n\r\n", lambda client: client.peek(7).id),
        (b"list-tube-used\r\n", b"USING default\r\n", lambda client: 7 * (client.using() == "default")),
    ],
)
def test_a_call_that_may_be_sent_twice_survives_the_loss(
    make: Maker, end: object, sent: bytes, answer: bytes, call: Callable[[Any], int]
) -> None:
    with make.to_peer([INSERTED, (sent, end)], [ALIVE, (sent, end)], [ALIVE, (sent, answer)], backoff=SOON) as client:
        client.put("x")
        assert call(client) == 7


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_reserve_survives_the_loss(make: Maker, end: object) -> None:
    first: Steps = [INSERTED, *make.asking, (b"reserve\r\n", end)]
    second: Steps = [*make.asking_first, (b"reserve\r\n", end)]
    with make.to_peer(first, second, [*make.asking_first, (b"reserve\r\n", JOB)], backoff=SOON) as client:
        client.put("x")
        assert client.reserve().id == 7


def test_use_survives_the_loss(make: Maker) -> None:
    use = (b"use t\r\n", b"USING t\r\n")
    with make.to_peer([INSERTED, (b"use t\r\n", CLOSE)], [use, use, INSERTED], backoff=SOON) as client:
        client.put("x")
        client.use("t")
        assert client.put("x") == 1


@pytest.mark.parametrize("many", [True, False])
def test_reserve_many_survives_the_loss_on_any_server(make: Maker, *, many: bool) -> None:
    asked = ASK + b"reserve-many 2 2147483647\r\n" if many else ASK + b"reserve\r\nreserve-with-timeout 0\r\n"
    answer = b"JOBS 1\r\nJOB 7 1\r\nx\r\n" if many else JOB + b"TIMED_OUT\r\n"
    first: Steps = [has("reserve-many") if many else NONE, (asked.removeprefix(ASK), CLOSE)]
    second: Steps = [(ASK, listing("reserve-many") if many else NONE[1]), (asked.removeprefix(ASK), answer)]
    with make.to_peer(first, second, backoff=SOON) as client:
        assert [job.id for job in client.reserve_many(2)] == [7]


def test_what_the_server_has_is_asked_again(make: Maker) -> None:
    with make.to_peer([INSERTED, (ASK, CLOSE)], [(ASK, listing("explain"))], backoff=SOON) as client:
        client.put("x")
        assert "explain" in client.features()


def test_without_patience_it_fails_as_any_other(make: Maker) -> None:
    with make.to_peer(
        [INSERTED, *make.asking, (b"reserve\r\n", CLOSE)], [*make.asking, INSERTED], backoff=SOON, patience=0
    ) as client:
        client.put("x")
        with pytest.raises(ConnectionLostError):
            client.reserve()
        assert client.put("x") == 1


def test_a_wrong_address_is_found_at_once(make: Maker, nobody: tuple[str, int]) -> None:  # noqa: F811
    with pytest.raises(CannotConnectError):
        make(nobody, backoff=FAST, patience=None).reserve()
    first = b"".join(sent for sent, _ in make.asking_first) + b"reserve\r\n"
    with Peer([(first, CLOSE)]) as peer, pytest.raises(ConnectionLostError):
        make(peer.address, backoff=FAST, patience=None).reserve()


def test_a_connection_works_before_its_first_reserve_is_answered(make: Maker) -> None:
    waiting: Steps = [*make.asking_first, (b"reserve\r\n", CLOSE)]
    with make.to_peer(waiting, [*make.asking_first, (b"reserve\r\n", JOB)], backoff=FAST) as client:
        assert client.reserve().id == 7


@pytest.mark.parametrize("wrong", [-1, "60", float("nan")])
def test_what_is_no_patience(make: Maker, wrong: object) -> None:
    with pytest.raises(ArgumentError, match="patience"):
        make(("127.0.0.1", 1), patience=wrong)


def test_a_reserve_goes_on_at_the_next_address_with_its_tubes(make: Maker, nobody: tuple[str, int]) -> None:  # noqa: F811
    greeting = (b"watch a\r\nignore default\r\n", b"WATCHING 2\r\nWATCHING 1\r\n")
    with (
        Peer([greeting, INSERTED, *make.asking, (b"reserve\r\n", RESET)]) as one,
        Peer([greeting, *make.asking, (b"reserve\r\n", CLOSE)]) as two,
        Peer([greeting, *make.asking, (b"reserve\r\n", JOB)]) as three,
    ):
        client = make([one.address, nobody, two.address, three.address], watch="a", backoff=FAST)
        client.put("x")
        assert client.reserve().id == 7
        assert client.address.port == three.address[1]
        client.close()


def test_patience_ends(make: Maker) -> None:
    with make.to_peer([INSERTED, *make.asking, (b"reserve\r\n", CLOSE)], backoff=FAST, patience=0.1) as client:
        client.put("x")
        with pytest.raises(CannotConnectError, match=r"can't connect to .*; the connection was lost \d+\.\d s ago"):
            client.reserve()
        with pytest.raises(CannotConnectError, match="lost"):
            client.watch("t")
        with pytest.raises(CannotConnectError):
            client.put("x")


def test_a_reserve_times_out_without_a_server(make: Maker) -> None:
    with make.to_peer([INSERTED, *make.asking, (b"reserve-with-timeout 1\r\n", CLOSE)], backoff=FAST) as client:
        client.put("x")
        with pytest.raises(TimedOutError, match="the connection was lost"):
            client.reserve(1)
        with pytest.raises(TimedOutError, match="the connection was lost"):
            client.reserve(0)


def test_a_reserve_is_sent_again_with_what_is_left(make: Maker) -> None:
    reserve = b"reserve-with-timeout 100\r\n"
    with make.to_peer(
        [INSERTED, *make.asking, (reserve, CLOSE)], [*make.asking_first, (reserve, JOB)], backoff=FAST
    ) as client:
        client.put("x")
        assert client.reserve(100).id == 7  # rounded up, so that nobody waits too short


def test_iterating_ends_only_when_the_server_says_that_there_is_no_job(make: Maker) -> None:
    poll = b"reserve-with-timeout 0\r\n"
    second: Steps = [
        ALIVE,
        (b"list-tubes-watched\r\n", b"OK 14\r\n---\n- default\n\r\n"),
        (poll, JOB),
        (poll, b"TIMED_OUT\r\n"),
    ]
    with make.to_peer([INSERTED, (poll, CLOSE)], second, backoff=FAST) as client:
        client.put("x")
        assert [job.id for job in client.reserve_iter(0)] == [7]


def test_the_loss_and_the_return_are_one_line_each(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "beanpole.client")
    first: Steps = [INSERTED, *make.asking, (b"reserve\r\n", CLOSE)]
    with make.to_peer(first, [*make.asking_first, (b"reserve\r\n", JOB)], backoff=FAST) as client:
        client.put("x")
        client.reserve()
    url = str(client.address)
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "beanpole.client"]
    (level, lost), (other, found) = lines
    assert (level, other) == ("WARNING", "INFO")
    assert lost.startswith(f"lost the connection to {url} (")
    assert lost.endswith("; connecting again for up to 60 s")
    assert found.startswith(f"connected again to {url} after ")


def test_a_connection_that_the_client_ends_is_no_loss(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "beanpole.client")
    with make.to_peer([INSERTED], [INSERTED]) as client:
        client.put("x")
        client.close()
        client.put("x")
    assert not [each for each in caplog.records if each.name == "beanpole.client"]


def test_a_machine_that_is_gone_is_noticed_by_who_only_waits(make: Maker) -> None:
    """The kernel asks; nobody answers for two minutes."""
    with make.to_peer([INSERTED]) as client:
        client.put("x")
        link = client._link
        connection = link._transport.get_extra_info("socket") if hasattr(link, "_transport") else link._socket
        options = (socket.TCP_NODELAY, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        asked = [connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
        asked += [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options]
    assert asked == [1, 1, 60, 15, 4]


# --- Jobs that are lost -----------------------------------------------------------------------------------------------


LOSING = [
    (b"touch 7\r\n", lambda client: client.touch(7)),
    (b"release 7 65536 0\r\n", lambda client: client.release(7)),
    (b"bury 7 65536\r\n", lambda client: client.bury(7)),
    (b"snooze-job 7 0\r\n", lambda client: client.snooze_job(7)),
    (b"fail-job 7 0\r\n\r\n", lambda client: client.fail_job(7)),
]


@pytest.mark.parametrize(("sent", "call"), LOSING)
def test_a_job_that_was_held_is_known_to_be_lost(make: Maker, sent: bytes, call: Callable[[Any], object]) -> None:
    features = ("snooze-job", "fail-job", "cancel-reserve")
    first: Steps = [has(*features), (b"reserve\r\n", JOB), (b"reserve\r\n", CLOSE)]
    second: Steps = [
        (ASK, listing(*features)),
        (b"reserve\r\n", b"RESERVED 8 0\r\n\r\n"),
        (sent, b"NOT_FOUND\r\n"),
        (sent.replace(b"7", b"9"), b"NOT_FOUND\r\n"),
        (b"delete 7\r\n", b"DELETED\r\n"),
    ]
    with make.to_peer(first, second, backoff=FAST, name="") as client:
        client.features()
        job = client.reserve()
        assert not client.is_lost(job)
        assert client.reserve().id == 8
        assert client.is_lost(job)
        assert not client.is_lost(8)
        with pytest.raises(JobLostError, match="7: the connection that had reserved the job was lost"):
            call(client)
        nine = {b"touch": client.touch, b"release": client.release, b"bury": client.bury}
        other = nine.get(sent.split()[0], client.snooze_job if b"snooze" in sent else client.fail_job)
        with pytest.raises(NotFoundError) as caught:
            other(9)
        assert type(caught.value) is NotFoundError
        client.delete(job)


def test_nobody_is_asked_about_a_lost_job_while_there_is_no_connection(make: Maker) -> None:
    with make.to_peer(
        [*make.asking_first, (b"reserve\r\n", JOB), (b"delete 1\r\n", CLOSE)], backoff=Backoff(attempts=100)
    ) as client:
        job = client.reserve()
        with pytest.raises(ConnectionLostError):
            client.delete(1)
        for call in (client.touch, client.release, client.bury, client.snooze_job, client.fail_job):
            with pytest.raises(JobLostError):
                call(job)


def test_a_job_that_is_reserved_again_is_not_lost(make: Maker) -> None:
    script: Steps = [*make.asking_first, (b"reserve\r\n", JOB), (b"touch 7\r\n", b"TOUCHED\r\n")]
    with make.to_peer(script, script) as client:
        for _ in range(2):
            job = client.reserve()
            client.touch(job)
            client.close()
            assert client.is_lost(job)


def test_it_remembers_the_last_jobs_that_were_lost() -> None:
    session: Session[str] = Session(TextCodec("utf-8"), "default", ["default"])
    for start in range(0, 30_000, 1000):
        session.held.update(range(start, start + 1000))
        session.ended()
    assert len(session.lost) == 10_000
    assert session.is_lost(29_999)
    assert not session.is_lost(19_999)


# --- Without a client -------------------------------------------------------------------------------------------------


def outage(clock: Clock, patience_s: float | None = 60) -> Outage:
    return Outage(patience_s, Backoff(attempts=1, first_s=0.05, max_s=5, chance=lambda: 0.0), clock)


def test_pauses_grow_to_two_seconds_and_end_with_the_patience() -> None:
    clock = Clock()
    lost = outage(clock)
    lost.begin(Address(), ConnectionLostError("x"))
    pauses = [lost.pause_s(None) for _ in range(8)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    clock.now_s += 59
    assert (lost.is_bearable, lost.pause_s(None)) == (True, 1.0)
    clock.now_s += 1
    assert (lost.is_bearable, lost.is_on, lost.pause_s(0)) == (False, True, 0.05)


def test_a_server_that_comes_and_goes_is_not_overrun() -> None:
    clock = Clock()
    lost = outage(clock, None)
    pauses = []
    for lived_s in (0, 1, 1, 10, 1):
        clock.now_s += lived_s
        lost.begin(Address(), ConnectionLostError("x"))
        pauses.append(lost.pause_s(None))
        lost.end(Address())
    assert pauses == [0.05, 0.1, 0.2, 0.05, 0.1]


def test_patience_without_end() -> None:
    clock = Clock()
    lost = outage(clock, None)
    lost.begin(Address(), ConnectionLostError("x"))
    clock.now_s += 1e9
    assert lost.is_bearable
    assert lost.lasts_s == 1e9


def test_a_retried_reserve_waits_for_what_is_left() -> None:
    clock = Clock()
    lost = outage(clock)
    session: Session[str] = Session(TextCodec("utf-8"), "default", ["default"])
    plain = waiting_call(session, b"reserve-with-timeout 10\r\n", 10)
    many = waiting_call(session, b"reserve-many 5 10\r\n", 10)
    calls = (plain, many, wait_for_job_call(10))
    retries = [Retry(lost, session, each, clock.now_s, 0) for each in calls]
    lost.begin(Address(), ConnectionLostError("x"))
    clock.now_s += 3.5
    sent = [b"reserve-with-timeout 7\r\n", b"reserve-many 5 7\r\n", b"reserve-many 0 7\r\n"]
    assert [each.call().data for each in retries] == sent
    assert [each.call().wait_s for each in retries] == [7, 7, 7]
    clock.now_s += 6.5
    for each in retries:
        with pytest.raises(TimedOutError):
            each.call()


def put_job(options: bytes) -> "Call[int]":
    return Call(b"put-job 1 %b\r\nx once=t key=k\r\n" % options, Word.INSERTED, lambda reply: reply.number)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [(b"ttr=60", 0), (b"once=t", 300), (b"once=for=5 for=7", 7), (b"key=k", math.inf), (b"key=k once=t", math.inf)],
)
def test_for_how_long_a_put_may_be_sent_again(options: bytes, seconds: float) -> None:
    assert safe_s(put_job(options)) == seconds


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_put_that_was_sent_is_not_sent_again_when_its_token_may_have_ended(*, was_sent: bool) -> None:
    clock = Clock()
    lost = outage(clock, None)
    session: Session[str] = Session(TextCodec("utf-8"), "default", ["default"])
    retry = Retry(lost, session, put_job(b"once=t for=5"), clock.now_s, 0)
    lost.begin(Address(), ConnectionLostError("x"))
    assert retry.pause_s(ConnectionLostError("x", outcome_unknown=was_sent)) == 0.05
    clock.now_s += 4.95
    over = CannotConnectError("x")
    if was_sent:
        with pytest.raises(CannotConnectError):
            retry.pause_s(over)
        assert over.outcome_unknown
    else:
        assert retry.pause_s(over) == 0.1


def waiting_call(session: Session[str], data: bytes, timeout_s: int) -> Any:
    if data.startswith(b"reserve-many"):
        return reserve_many_call(session, 5, timeout_s)
    return Call(wire.reserve(timeout_s), Word.RESERVED, session.reserved, wait_s=timeout_s)
