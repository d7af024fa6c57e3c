"""A client that keeps its jobs: what it says over the next connection, and what it makes of the answer."""

from collections.abc import Callable
from typing import Any

import pytest

from beanpole import ArgumentError, CannotConnectError, ConnectionLostError, JobLostError, UnsupportedError
from beanpole.client.session import Keep
from tests.unit.client.peer import ASK, CLOSE, NONE, Maker, Steps, listing
from tests.unit.client.test_connection import SOON

TOKEN = b"0123456789abcdef" * 2
AGAIN = b"keep-session 10 %b\r\n" % TOKEN
LISTED = listing("keep-session", "keep-session.ends", "snooze-job", "cancel-reserve")
JOB = b"RESERVED 7 1\r\nx\r\n"
BEGIN: Steps = [(ASK, LISTED), (AGAIN, b"KEPT 0\r\n")]
RESERVE = (b"reserve-with-timeout 0\r\n", JOB)
BROKEN = (b"kick 1\r\n", CLOSE)
"""A command that is never sent twice."""


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: TOKEN.decode()[: 2 * size])


def break_off(client: Any) -> None:
    with pytest.raises(ConnectionLostError):
        client.kick(1)


def kept(answer: bytes, *more: tuple[bytes, Any]) -> Steps:
    """The next connection."""
    return [(ASK, LISTED), (AGAIN, answer), *more]


def test_jobs_that_the_server_has_kept_are_held(make: Maker) -> None:
    then = [(b"touch 7\r\n", b"TOUCHED\r\n"), (b"delete 7\r\n", b"DELETED\r\n"), (b"quit\r\n", CLOSE)]
    with make.to_peer([*BEGIN, RESERVE, BROKEN], kept(b"KEPT 1 7\r\n", *then), name="", backoff=SOON) as client:
        client.keep(10)
        job = client.reserve(0)
        break_off(client)
        assert not client.is_lost(job), "nobody knows yet"
        client.touch(job)
        assert not client.is_lost(job)
        client.delete(job)


@pytest.mark.parametrize("answer", [b"KEPT 0\r\n", b"NOT_KEPT\r\n", b"OUT_OF_MEMORY\r\n"])
def test_a_job_that_is_missing_is_lost(make: Maker, answer: bytes) -> None:
    then = [(b"touch 7\r\n", b"NOT_FOUND\r\n"), (b"quit\r\n", CLOSE)][: 1 + (answer == b"KEPT 0\r\n")]
    with make.to_peer([*BEGIN, RESERVE, BROKEN], kept(answer, *then), name="", backoff=SOON) as client:
        client.keep(10)
        job = client.reserve(0)
        break_off(client)
        with pytest.raises(JobLostError):
            client.touch(job)
        assert client.is_lost(job)


def test_a_job_whose_reserved_never_came_goes_back(make: Maker) -> None:
    back = b"snooze-job 8 0\r\nsnooze-job 9 0\r\n"
    then = [(back, b"RELEASED\r\nNOT_FOUND\r\n"), (b"touch 7\r\n", b"TOUCHED\r\n"), (b"quit\r\n", CLOSE)]
    second = kept(b"KEPT 3 7 8 9\r\n", *then)
    with make.to_peer([*BEGIN, RESERVE, BROKEN], second, name="", backoff=SOON) as client:
        client.keep(10)
        client.reserve(0)
        break_off(client)
        client.touch(7)


def test_an_older_server_is_told_nothing(make: Maker) -> None:
    second: Steps = [NONE, (b"touch 7\r\n", b"NOT_FOUND\r\n")]
    with make.to_peer([*BEGIN, RESERVE, BROKEN], second, name="", backoff=SOON) as client:
        client.keep(10)
        client.reserve(0)
        break_off(client)
        with pytest.raises(JobLostError):
            client.touch(7)
    with make.to_peer([NONE]) as client, pytest.raises(UnsupportedError, match="keep-session"):
        client.keep(10)


def test_the_connection_may_break_again_before_the_answer(make: Maker) -> None:
    second: Steps = [(ASK, LISTED), (AGAIN, CLOSE)]
    third = kept(b"KEPT 1 7\r\n", (b"touch 7\r\n", b"TOUCHED\r\n"), (b"quit\r\n", CLOSE))
    with make.to_peer([*BEGIN, RESERVE, BROKEN], second, third, name="", backoff=SOON) as client:
        client.keep(10)
        client.reserve(0)
        break_off(client)
        client.touch(7)


def test_tubes_come_first_and_quit_last(make: Maker) -> None:
    line = b"keep-session 10 %b ends=all\r\n" % TOKEN
    first: Steps = [(b"watch t\r\n", b"WATCHING 2\r\n"), (ASK, LISTED), (line, b"KEPT 0\r\n"), BROKEN]
    second: Steps = [
        (b"watch t\r\n" + ASK, b"WATCHING 2\r\n" + LISTED),
        (line, b"KEPT 0\r\n"),
        (b"kick 1\r\n", b"KICKED 0\r\n"),
        (b"keep-session 0 %b\r\n" % TOKEN, b"KEPT 0\r\n"),
        (b"kick 1\r\n", b"KICKED 0\r\n"),
    ]
    with make.to_peer(first, second, watch=("default", "t"), name="", backoff=SOON) as client:
        client.keep(10, always=True)
        break_off(client)
        assert client.kick(1) == 0
        assert not client.untouched
        client.keep(0)
        assert client.untouched
        client.kick(1)


def test_a_client_that_is_closed_has_lost_its_jobs(make: Maker) -> None:
    second = kept(b"KEPT 1 7\r\n", (b"snooze-job 7 0\r\n", b"RELEASED\r\n"), (b"kick 1\r\n", b"KICKED 0\r\n"))
    with make.to_peer([*BEGIN, RESERVE, (b"quit\r\n", CLOSE)], [*second, (b"quit\r\n", CLOSE)], name="") as client:
        client.keep(10)
        client.reserve(0)
        client.close()
        assert client.is_lost(7)
        client.kick(1)  # the server may have been slow to notice that
        assert client.is_lost(7)


def test_a_child_of_a_fork_draws_another_token(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [1]
    keep = Keep(lambda: processes[-1])
    tokens = iter(["a" * 32, "b" * 32])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(tokens))
    assert keep.line(10, False) == keep.line(10, False)
    own = [keep.is_own]
    processes.append(2)
    assert [*own, keep.is_own] == [True, False], "it must not end the connection of its parent"
    assert b"b" * 32 in keep.line(10, False)[0]


@pytest.mark.parametrize("wrong", [-1, 601, 1.5, "10", None])
def test_what_is_no_time_to_keep(make: Maker, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="seconds"):
        make(("127.0.0.1", 1)).keep(wrong)


# --- Patience ---------------------------------------------------------------------------------------------------------

PUT = b"put 65536 0 60 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("sent", "answer", "call"),
    [
        (PUT, b"INSERTED 7\r\n", lambda client: client.put("x") == 7),
        (b"delete 7\r\n", b"DELETED\r\n", lambda client: client.delete(7) is None),
        (PUT + PUT, b"INSERTED 1\r\nINSERTED 2\r\n", lambda client: client.put_many(["x", "x"]) == [1, 2]),
        (b"", b"", lambda client: client.connect() is None),
    ],
)
def test_what_was_not_sent_yet_waits_for_the_server(
    make: Maker, sent: bytes, answer: bytes, call: Callable[[Any], bool]
) -> None:
    """It is refused by who accepts and closes, as a proxy does whose server is gone."""
    alive = (b"watch default\r\n", b"WATCHING 1\r\n")
    gone: Steps = [(alive[0], CLOSE)]
    last = [alive, (sent, answer)] if sent else [alive]
    with make.to_peer([(b"kick 1\r\n", b"KICKED 0\r\n"), BROKEN], gone, gone, gone, last, backoff=SOON) as client:
        client.kick(1)
        with pytest.raises(ConnectionLostError) as caught:
            client.kick(1)
        assert caught.value.outcome_unknown
        assert call(client)


def test_a_put_with_a_key_is_sent_again(make: Maker) -> None:
    line = b"put-job 1 pri=65536 delay=0 ttr=60 key=k\r\nx\r\n"
    features = listing("put-job", *(f"put-job.{each}" for each in ("pri", "delay", "ttr", "key")))
    second: Steps = [(ASK, features), (line, b"EXISTS 7\r\n")]
    with make.to_peer([(ASK, features), (line, CLOSE)], second, name="", backoff=SOON) as client:
        assert client.put("x", key="k") == 7


def test_after_its_patience_it_is_said_whether_the_put_was_sent(make: Maker) -> None:
    line = b"put-job 1 pri=65536 delay=0 ttr=60 key=k\r\nx\r\n"
    features = listing("put-job", *(f"put-job.{each}" for each in ("pri", "delay", "ttr", "key")))
    with make.to_peer([(ASK, features), (line, CLOSE)], name="", backoff=SOON, patience=0.1) as client:
        with pytest.raises(CannotConnectError) as caught:
            client.put("x", key="k")
        assert caught.value.outcome_unknown
        with pytest.raises(CannotConnectError) as caught:
            client.put("x", key="k")
        assert not caught.value.outcome_unknown
