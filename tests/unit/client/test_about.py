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
    ExistsError,
    InternalError,
    NotFoundError,
    OutOfMemoryError,
    RulesError,
    TimedOutError,
    UnexpectedReplyError,
)
from beanpole.client.about import MEANINGS, NAMES
from tests.unit.client.peer import Maker, Peer

Case = tuple[Callable[[Any], object], bytes, bytes, type[CommandError], object, str]
"""What is called, what goes over the wire and what comes back; the error, its attributes, and some of what it says."""

ASK = b"list-extensions\r\n"
WATCHED = b"watch a\r\nwatch b\r\nignore default\r\n"
GONE = "it may have been deleted"
HELD = "this connection does not hold the job"


def listed(*features: str) -> bytes:
    """The answer of a server that has these."""
    text = "".join(["---\n", *(f"- {each}\n" for each in features)]).encode()
    return b"OK %d\r\n%b\r\n" % (len(text), text)


@pytest.mark.parametrize(
    "case",
    [
        (
            lambda c: c.delete(17),
            b"delete 17",
            b"NOT_FOUND",
            NotFoundError,
            ("delete", 17, None),
            "delete 17: NOT_FOUND",
        ),
        (lambda c: c.release(17), b"release 17 65536 0", b"NOT_FOUND", NotFoundError, ("release", 17, None), HELD),
        (lambda c: c.touch(17), b"touch 17", b"NOT_FOUND", NotFoundError, ("touch", 17, None), HELD),
        (lambda c: c.bury(17), b"bury 17 65536", b"NOT_FOUND", NotFoundError, ("bury", 17, None), HELD),
        (lambda c: c.bury(17), b"bury 17 65536", b"INTERNAL_ERROR", InternalError, ("bury", 17, None), "bury 17: INT"),
        (lambda c: c.peek(17), b"peek 17", b"NOT_FOUND", NotFoundError, ("peek", 17, None), GONE),
        (lambda c: c.kick_job(17), b"kick-job 17", b"NOT_FOUND", NotFoundError, ("kick-job", 17, None), "nor delayed"),
        (
            lambda c: c.reserve_job(1),
            b"reserve-job 1",
            b"NOT_FOUND",
            NotFoundError,
            ("reserve-job", 1, None),
            "reserved",
        ),
        (
            lambda c: c.stats_tube("t"),
            b"stats-tube t",
            b"NOT_FOUND",
            NotFoundError,
            ("stats-tube", None, "t"),
            "stats-tube t:",
        ),
        (
            lambda c: c.peek_ready(),
            b"peek-ready",
            b"NOT_FOUND",
            NotFoundError,
            ("peek-ready", None, "default"),
            "in default: ",
        ),
        (
            lambda c: c.kick(1),
            b"kick 1",
            b"OUT_OF_MEMORY",
            OutOfMemoryError,
            ("kick", None, "default"),
            "kick in default: ",
        ),
        (
            lambda c: c.put(""),
            b"put 65536 0 60 0\r\n",
            b"DRAINING",
            DrainingError,
            ("put", None, "default"),
            "put into default: D",
        ),
        (
            lambda c: c.put(""),
            b"put 65536 0 60 0\r\n",
            b"BURIED 5",
            BuriedError,
            ("put", 5, "default"),
            "put into default: B",
        ),
        (
            lambda c: c.release(17),
            b"release 17 65536 0",
            b"BURIED",
            BuriedError,
            ("release", 17, None),
            "release 17: BURIED",
        ),
        (
            lambda c: c.reserve(),
            b"reserve",
            b"DEADLINE_SOON",
            DeadlineSoonError,
            ("reserve", None, "default"),
            "reserve from default: ",
        ),
        (
            lambda c: c.reserve(1),
            b"reserve-with-timeout 1",
            b"TIMED_OUT",
            TimedOutError,
            ("reserve-with-timeout", None, "default"),
            "timeout 1 from default: ",
        ),
        (
            lambda c: c.stats(),
            b"stats",
            b"NOT_FOUND",
            NotFoundError,
            ("stats", None, None),
            "stats: NOT_FOUND: there is no such job or tube",
        ),
        (
            lambda c: c.delete(17),
            b"delete 17",
            b"KICKED",
            UnexpectedReplyError,
            ("delete", 17, None),
            "delete 17: unexpected",
        ),
    ],
)
def test_an_error_says_what_it_was_about(make: Maker, case: Case) -> None:
    call, sent, answer, kind, about, said = case
    asking = make.asking_first if sent in {b"reserve", b"reserve-with-timeout 1"} else []
    with Peer([*asking, (sent + b"\r\n", answer + b"\r\n")]) as peer:
        client = make(peer.address)
        with pytest.raises(kind) as caught:
            call(client)
        client.close()
    error = caught.value
    assert (error.command, error.id, error.tube) == about
    assert str(error).startswith(error.command)
    assert said in str(error)
    other = copy.copy(error)  # as pickle does it
    assert (str(other), other.command, other.id) == (str(error), error.command, error.id)


def test_a_reserve_names_some_of_the_tubes(make: Maker) -> None:
    watch = ["a", "b", "c", "d", "e"]
    greeting = b"".join(b"watch %b\r\n" % each.encode() for each in watch) + b"ignore default\r\n"
    answers = b"".join(b"WATCHING %d\r\n" % count for count in (2, 3, 4, 5, 6, 5))
    with Peer([(greeting, answers), (b"reserve-with-timeout 0\r\n", b"TIMED_OUT\r\n")]) as peer:
        client = make(peer.address, watch=watch)
        with pytest.raises(
            TimedOutError, match=r"^reserve-with-timeout 0 from a, b, c and 2 more: TIMED_OUT"
        ) as caught:
            client.reserve(0)
        client.close()
    assert caught.value.tube is None


def test_a_pipeline_says_which_command_failed_in_which_tube(make: Maker) -> None:
    sent = b"use a\r\nput 65536 0 60 0\r\n\r\nuse b\r\nput 65536 0 60 0\r\n\r\ndelete 5\r\n"
    answers = b"USING a\r\nDRAINING\r\nUSING b\r\nDRAINING\r\nNOT_FOUND\r\n"
    with Peer([(sent, answers)]) as peer:
        client = make(peer.address)
        with client.pipeline(raise_errors=False) as p:
            results = [p.put("", tube="a"), p.put("", tube="b"), p.delete(5)]
        client.close()
    errors = [each.error for each in results]
    assert [each.tube for each in errors] == ["a", "b", None]
    assert [str(each).partition(": ")[0] for each in errors] == ["put into a", "put into b", "delete 5"]


def test_a_batch_says_which_jobs_failed(make: Maker) -> None:
    with Peer([(ASK, listed()), (b"delete 1\r\ndelete 2\r\n", b"DELETED\r\nNOT_FOUND\r\n")]) as peer:
        client = make(peer.address)
        with pytest.raises(
            BatchError, match=r"^1 of 2 commands failed, the first with: delete 2: NOT_FOUND: "
        ) as caught:
            client.delete_many([1, 2])
        client.close()
    failed = caught.value.results[1]
    assert isinstance(failed, NotFoundError)
    assert (failed.command, failed.id) == ("delete", 2)


@pytest.mark.parametrize(
    ("features", "case"),
    [
        (
            "change-job change-job.tube",
            (
                lambda c: c.change_job(5, tube="mails"),
                b"change-job 5 tube=mails",
                b"EXISTS 7",
                ExistsError,
                ("change-job", 7, "mails"),
                "change-job 5 to mails: EXISTS: job 7 has the key",
            ),
        ),
        (
            "find-job",
            (
                lambda c: c.find_job("mails", "k"),
                b"find-job mails k",
                b"NOT_FOUND",
                NotFoundError,
                ("find-job", None, "mails"),
                "find-job mails k: NOT_FOUND: no job of the tube has the key",
            ),
        ),
        (
            "put-job put-job.tube put-job.key put-job.pri put-job.delay put-job.ttr",
            (
                lambda c: c.put("", key="k", tube="mails"),
                b"put-job 0 tube=mails pri=65536 delay=0 ttr=60 key=k\r\n",
                b"OUT_OF_MEMORY",
                OutOfMemoryError,
                ("put-job", None, "mails"),
                "put-job into mails: OUT_OF_MEMORY: ",
            ),
        ),
        (
            "drop-rules",
            (
                lambda c: c.drop_rules("mail-*"),
                b"drop-rules mail-*",
                b"NOT_FOUND",
                NotFoundError,
                ("drop-rules", None, None),
                "drop-rules mail-*: NOT_FOUND: the pattern has no rules",
            ),
        ),
        (
            "set-rules rule.attempts",
            (
                lambda c: c.set_rules("a", "attempts: 5"),
                b"set-rules a 11\r\nattempts: 5",
                b"BAD_RULES 1 bad",
                RulesError,
                ("set-rules", None, None),
                "line 1: bad",
            ),
        ),
    ],
)
def test_an_error_of_an_extension(make: Maker, features: str, case: Case) -> None:
    call, sent, answer, kind, about, said = case
    with Peer([(ASK, listed(*features.split())), (sent + b"\r\n", answer + b"\r\n")]) as peer:
        client = make(peer.address)
        with pytest.raises(kind) as caught:
            call(client)
        client.close()
    assert (caught.value.command, caught.value.id, caught.value.tube) == about
    assert str(caught.value).startswith(said)


def test_what_is_done_without_an_extension_is_named_by_what_was_wanted(make: Maker) -> None:
    with Peer([(ASK, listed()), (b"stats-tube mails\r\n", b"INTERNAL_ERROR\r\n")]) as peer:
        client = make(peer.address)
        with pytest.raises(InternalError, match=r"^clear-tube mails: INTERNAL_ERROR") as caught:
            client.clear_tube("mails")
        client.close()
    assert (caught.value.command, caught.value.tube) == ("clear-tube", "mails")


def test_what_was_not_sent_has_no_command(make: Maker) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(("127.0.0.1", 1)).delete(-1)
    assert (caught.value.command, caught.value.id, caught.value.tube) == ("", None, None)


def test_meanings_are_those_of_commands() -> None:
    assert set(MEANINGS) <= NAMES.keys() | {"peek-ready", "peek-delayed", "peek-buried"}
