"""What errors say: the command, the job and the tube, in words and as attributes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from beanpole import (
    ArgumentError,
    BatchError,
    BuriedError,
    CommandError,
    DeadlineSoonError,
    DrainingError,
    ElsewhereError,
    ExistsError,
    InternalError,
    NotFoundError,
    OutOfMemoryError,
    RulesError,
    TimedOutError,
    UnexpectedReplyError,
)
from beanpole.client.about import MEANINGS, NAMES
from tests.unit.client.peer import Maker, has

Case = tuple[Callable[[Any], object], str, str, type[CommandError], int | None, str | None, str]
"""What is called, what goes over the wire and comes back; the error, its job and tube, and some of what it says."""

WATCHED = b"watch a\r\nwatch b\r\nignore default\r\n"
GONE = "it may have been deleted"
HELD = "this connection does not hold the job"


PUT = "put 65536 0 60 0\r\n"

CASES: list[Case] = [
    (lambda c: c.delete(17), "delete 17", "NOT_FOUND", NotFoundError, 17, None, "delete 17: NOT_FOUND"),
    (lambda c: c.release(17), "release 17 65536 0", "NOT_FOUND", NotFoundError, 17, None, HELD),
    (lambda c: c.touch(17), "touch 17", "NOT_FOUND", NotFoundError, 17, None, HELD),
    (lambda c: c.bury(17), "bury 17 65536", "NOT_FOUND", NotFoundError, 17, None, HELD),
    (lambda c: c.bury(17), "bury 17 65536", "INTERNAL_ERROR", InternalError, 17, None, "bury 17: INT"),
    (lambda c: c.peek(17), "peek 17", "NOT_FOUND", NotFoundError, 17, None, GONE),
    (lambda c: c.kick_job(17), "kick-job 17", "NOT_FOUND", NotFoundError, 17, None, "nor delayed"),
    (lambda c: c.reserve_job(1), "reserve-job 1", "NOT_FOUND", NotFoundError, 1, None, "reserved"),
    (lambda c: c.stats_tube("t"), "stats-tube t", "NOT_FOUND", NotFoundError, None, "t", "stats-tube t:"),
    (lambda c: c.peek_ready(), "peek-ready", "NOT_FOUND", NotFoundError, None, "default", "in default: "),
    (lambda c: c.kick(1), "kick 1", "OUT_OF_MEMORY", OutOfMemoryError, None, "default", "kick in default: "),
    (lambda c: c.put(""), PUT, "DRAINING", DrainingError, None, "default", "put into default: D"),
    (lambda c: c.put(""), PUT, "BURIED 5", BuriedError, 5, "default", "put into default: B"),
    (lambda c: c.release(17), "release 17 65536 0", "BURIED", BuriedError, 17, None, "release 17: BURIED"),
    (lambda c: c.reserve(), "reserve", "DEADLINE_SOON", DeadlineSoonError, None, "default", "reserve from default: "),
    (lambda c: c.reserve(1), "reserve-with-timeout 1", "TIMED_OUT", TimedOutError, None, "default", "1 from default: "),
    (lambda c: c.stats(), "stats", "NOT_FOUND", NotFoundError, None, None, "stats: NOT_FOUND: there is no such job or"),
    (lambda c: c.delete(17), "delete 17", "KICKED", UnexpectedReplyError, 17, None, "delete 17: unexpected"),
]


@pytest.mark.parametrize("case", CASES)
def test_an_error_says_what_it_was_about(make: Maker, case: Case) -> None:
    call, sent, answer, kind, id, tube, said = case
    asking = make.asking_first if sent in {"reserve", "reserve-with-timeout 1"} else []
    with (
        make.to_peer([*asking, (f"{sent}\r\n".encode(), f"{answer}\r\n".encode())]) as client,
        pytest.raises(kind) as caught,
    ):
        call(client)
    error = caught.value
    assert (error.command, error.id, error.tube) == (sent.split()[0], id, tube)
    assert str(error).startswith(error.command)
    assert said in str(error)
    other = copy.copy(error)  # as pickle does it
    assert (str(other), other.command, other.id) == (str(error), error.command, error.id)


def test_a_reserve_names_some_of_the_tubes(make: Maker) -> None:
    watch = ["a", "b", "c", "d", "e"]
    greeting = b"".join(b"watch %b\r\n" % each.encode() for each in watch) + b"ignore default\r\n"
    answers = b"".join(b"WATCHING %d\r\n" % count for count in (2, 3, 4, 5, 6, 5))
    with (
        make.to_peer([(greeting, answers), (b"reserve-with-timeout 0\r\n", b"TIMED_OUT\r\n")], watch=watch) as client,
        pytest.raises(TimedOutError, match=r"^reserve-with-timeout 0 from a, b, c and 2 more: TIMED_OUT") as caught,
    ):
        client.reserve(0)
    assert caught.value.tube is None


def test_a_pipeline_says_which_command_failed_in_which_tube(make: Maker) -> None:
    sent = b"use a\r\nput 65536 0 60 0\r\n\r\nuse b\r\nput 65536 0 60 0\r\n\r\ndelete 5\r\n"
    answers = b"USING a\r\nDRAINING\r\nUSING b\r\nDRAINING\r\nNOT_FOUND\r\n"
    with make.to_peer([(sent, answers)]) as client, client.pipeline(raise_errors=False) as p:
        results = [p.put("", tube="a"), p.put("", tube="b"), p.delete(5)]
    errors = [each.error for each in results]
    assert [each.tube for each in errors] == ["a", "b", None]
    assert [str(each).partition(": ")[0] for each in errors] == ["put into a", "put into b", "delete 5"]


def test_a_batch_says_which_jobs_failed(make: Maker) -> None:
    with (
        make.to_peer([has(), (b"delete 1\r\ndelete 2\r\n", b"DELETED\r\nNOT_FOUND\r\n")]) as client,
        pytest.raises(BatchError, match=r"^1 of 2 commands failed, the first with: delete 2: NOT_FOUND: ") as caught,
    ):
        client.delete_many([1, 2])
    failed = caught.value.results[1]
    assert isinstance(failed, NotFoundError)
    assert (failed.command, failed.id) == ("delete", 2)


PUT_JOB = ("put-job", "put-job.tube", "put-job.key", "put-job.pri", "put-job.delay", "put-job.ttr")
FEATURES = ("change-job", "change-job.tube", "find-job", "drop-rules", "set-rules", "rule.dead", *PUT_JOB)
PUT_KEY = "put-job 0 tube=t pri=65536 delay=0 ttr=60 key=k\r\n"
TAKEN = "change-job 5 to t: EXISTS: job 7 has the key"
ELSEWHERE = "change-job 5 to t: ELSEWHERE: the other tube has its home on shard b"
NO_KEY = "find-job t k: NOT_FOUND: no job of the tube has the key"
NO_RULES = "drop-rules m*: NOT_FOUND: the pattern has no rules"
SET = "set-rules a 7\r\ndead: b"

EXTENDED: list[Case] = [
    (lambda c: c.change_job(5, tube="t"), "change-job 5 tube=t", "EXISTS 7", ExistsError, 7, "t", TAKEN),
    (lambda c: c.change_job(5, tube="t"), "change-job 5 tube=t", "ELSEWHERE b", ElsewhereError, 5, "t", ELSEWHERE),
    (lambda c: c.find_job("t", "k"), "find-job t k", "NOT_FOUND", NotFoundError, None, "t", NO_KEY),
    (
        lambda c: c.put("", key="k", tube="t"),
        PUT_KEY,
        "OUT_OF_MEMORY",
        OutOfMemoryError,
        None,
        "t",
        "put-job into t: O",
    ),
    (lambda c: c.drop_rules("m*"), "drop-rules m*", "NOT_FOUND", NotFoundError, None, None, NO_RULES),
    (lambda c: c.set_rules("a", "dead: b"), SET, "BAD_RULES 1 bad", RulesError, None, None, "line 1: bad"),
]


@pytest.mark.parametrize("case", EXTENDED)
def test_an_error_of_an_extension(make: Maker, case: Case) -> None:
    call, sent, answer, kind, id, tube, said = case
    with (
        make.to_peer([has(*FEATURES), (f"{sent}\r\n".encode(), f"{answer}\r\n".encode())]) as client,
        pytest.raises(kind) as caught,
    ):
        call(client)
    assert (caught.value.command, caught.value.id, caught.value.tube) == (sent.split()[0], id, tube)
    assert str(caught.value).startswith(said)


def test_what_is_done_without_an_extension_is_named_by_what_was_wanted(make: Maker) -> None:
    with (
        make.to_peer([has(), (b"stats-tube mails\r\n", b"INTERNAL_ERROR\r\n")]) as client,
        pytest.raises(InternalError, match=r"^clear-tube mails: INTERNAL_ERROR") as caught,
    ):
        client.clear_tube("mails")
    assert (caught.value.command, caught.value.tube) == ("clear-tube", "mails")


def test_what_was_not_sent_has_no_command(make: Maker) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(("127.0.0.1", 1)).delete(-1)
    assert (caught.value.command, caught.value.id, caught.value.tube) == ("", None, None)


def test_meanings_are_those_of_commands() -> None:
    assert set(MEANINGS) <= NAMES.keys() | {"peek-ready", "peek-delayed", "peek-buried"}
