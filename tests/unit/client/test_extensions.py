"""What a client says to a server that has more than beanstalkd, and to one that has not."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from beanpole import (
    ArgumentError,
    AsyncClient,
    AsyncPool,
    Backoff,
    Client,
    ConnectionLostError,
    ExistsError,
    Inserted,
    NotFoundError,
    OutOfMemoryError,
    Pool,
    UnexpectedReplyError,
    UnsupportedError,
)
from beanpole.client import Histogram, extensions, fallback
from beanpole.client.codec import TextCodec
from beanpole.client.putting import plain_put
from beanpole.client.session import Session
from beanpole.testing import FakeServer, fakeserver
from tests.unit.client.peer import ASK, CLOSE, NONE, SILENCE, Maker, Peer, Steps, has, listing, ok

PUT_JOB = b"put-job 1 pri=65536 delay=0 ttr=60"
PUT_OPTIONS = ("put-job", "put-job.tube", "put-job.pri", "put-job.delay", "put-job.ttr")
KEY_OPTIONS = (*PUT_OPTIONS, "put-job.key", "put-job.taken", "put-job.until", "put-job.expire")


# --- The question -----------------------------------------------------------------------------------------------------


def test_a_client_that_needs_no_extension_does_not_ask(make: Maker) -> None:
    script = [(b"use a\r\nput 65536 0 60 1\r\nx\r\n", b"USING a\r\nINSERTED 1\r\n")]
    with make.to_peer(script) as client:
        assert client.put("x", tube="a") == 1


def test_it_asks_once_a_connection_and_with_the_greeting_from_then_on(make: Maker) -> None:
    first: Steps = [
        (b"use a\r\n", b"USING a\r\n"),
        has("clear-tube"),
        (b"clear-tube t\r\n", b"CLEARED 3\r\n"),
        (b"clear-tube t ready buried\r\n", b"CLEARED 0\r\n"),
        (b"delete 1\r\n", CLOSE),
    ]
    second: Steps = [
        (b"use a\r\n" + ASK, b"USING a\r\n" + listing("clear-tube")),
        (b"clear-tube t\r\n", b"CLEARED 1\r\n"),
    ]
    with make.to_peer(first, second, use="a") as client:
        assert client.features() == {"list-extensions", "clear-tube"}
        assert [client.clear_tube("t"), client.clear_tube("t", "ready", "buried")] == [3, 0]
        with pytest.raises(ConnectionLostError):
            client.delete(1)
        assert client.clear_tube("t") == 1


def test_what_one_connection_has_listed_says_nothing_of_the_next(make: Maker) -> None:
    """The server was replaced by an older one: a body that it does not know would be run."""
    first: Steps = [
        has(*KEY_OPTIONS),
        (PUT_JOB + b" key=k\r\nx\r\n", b"INSERTED 1\r\n"),
        (b"delete 1\r\n", CLOSE),
    ]
    with make.to_peer(first, [NONE, (b"delete 2\r\n", b"DELETED\r\n")]) as client:
        assert client.put("x", key="k") == 1
        with pytest.raises(ConnectionLostError):
            client.delete(1)
        with pytest.raises(UnsupportedError, match="put-job"):
            client.put("x", key="k")
        client.delete(2)


@pytest.mark.parametrize("answer", [b"UNKNOWN_COMMAND\r\n", b"BAD_FORMAT\r\n", listing()])
def test_a_server_that_lists_nothing_gets_no_line_of_an_extension(make: Maker, answer: bytes) -> None:
    with make.to_peer([(ASK, answer)]) as client:
        calls: list[Callable[[], object]] = [
            lambda: client.put("delete 1\r\n", key="k"),
            lambda: client.put("x", expire=5),
            lambda: client.put("x", delay=0.5),
            lambda: client.put_job("x", delay=0.5),
            lambda: client.find_job("t", "k"),
            lambda: client.change_job(1, priority=5),
            lambda: client.change_body(1, "delete 1\r\n"),
            lambda: client.snooze_job(1),
            lambda: client.cancel_job(1),
            lambda: client.cancel_key("t", "k"),
            client.cancel_reserve,
            client.wait_for_job,
            lambda: client.fail_job(1, "delete 1\r\n"),
            lambda: client.move_jobs("t", "buried"),
            lambda: client.redrive("t"),
            lambda: client.set_rules("t", "attempts: 5"),
            lambda: client.get_rules("t"),
            client.list_rules,
            lambda: client.drop_rules("t"),
            lambda: client.explain(1),
            lambda: client.explain_tube("t"),
            lambda: client.list_jobs("t", "ready", bodies=10),
            lambda: client.list_jobs("t", "ready", order="next"),
            lambda: client.reserve_many(5, 0.5),
            lambda: client.release(1, 5, 0.5),
            lambda: client.pause_tube("t", 0.5),
        ]
        for call in calls:
            with pytest.raises(UnsupportedError) as caught:
                call()
            assert caught.value.feature in str(caught.value)


def test_the_error_names_the_option_that_is_missing(make: Maker) -> None:
    with make.to_peer([has(*PUT_OPTIONS, "change-job", "list-jobs")]) as client:
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: client.put("x", key="k"), "put-job.key"),
            (lambda: client.put("x", expire=1), "put-job.expire"),
            (lambda: client.put("x", meta={"a": "b"}), "put-job.meta"),
            (lambda: client.change_job(1, expire=1), "change-job.expire"),
            (lambda: client.list_jobs("t", "ready", bodies=10), "list-jobs.bodies"),
        ]
        for call, feature in calls:
            with pytest.raises(UnsupportedError) as caught:
                call()
            assert caught.value.feature == feature


@pytest.mark.parametrize("answer", [CLOSE, b"DELETED\r\n", b"OK 3\r\nabc\r\n"])
def test_a_question_without_an_answer_sends_nothing_else(make: Maker, answer: object) -> None:
    with Peer([(ASK, answer)]) as peer, pytest.raises((ConnectionLostError, UnexpectedReplyError)) as caught:
        make(peer.address, backoff=Backoff(attempts=1)).put("x", key="k")
    assert not getattr(caught.value, "outcome_unknown", False)


def test_a_silent_server_is_told_nothing_else(make: Maker) -> None:
    with Peer([(ASK, SILENCE)]) as peer, pytest.raises(ConnectionLostError) as caught:
        make(peer.address, timeout=0.05).put("x", key="k")
    assert not caught.value.outcome_unknown


# --- The commands -----------------------------------------------------------------------------------------------------


def test_put_with_a_key(make: Maker) -> None:
    whole = b"put-job 1 tube=a pri=1 delay=0.25 ttr=9 key=k taken=replace until=reserve expire=3600\r\nx\r\n"
    script = [
        has(*KEY_OPTIONS),
        (PUT_JOB + b" key=k\r\nx\r\n", b"EXISTS 4\r\n"),
        (b"use u\r\n" + PUT_JOB + b" key=k\r\nx\r\n", b"USING u\r\nINSERTED 5\r\n"),
        (whole, b"REPLACED 6\r\n"),
        (PUT_JOB + b" key=k\r\nx\r\n", b"EXISTS 7\r\n"),
        (PUT_JOB + b" key=k\r\nx\r\n", b"OUT_OF_MEMORY\r\n"),
        (b"put-job 1 pri=65536 delay=1.5 ttr=60\r\nx\r\n", b"INSERTED 8\r\n"),
        (b"put-job 1 pri=65536 delay=0 ttr=60\r\nx\r\n", b"INSERTED 9\r\n"),
    ]
    with make.to_peer(script) as client:
        assert client.put("x", key="k") == 4
        with client.using("u"):
            assert client.put("x", key="k") == 5
            given = {"tube": "a", "key": "k", "taken": "replace", "until": "reserve", "expire": 3600.0}
            assert client.put_job("x", 1, 0.25, 9, **given) == Inserted(6, "replaced")
            assert client.put_job("x", key="k") == Inserted(7, "exists")
            with pytest.raises(OutOfMemoryError):
                client.put_job("x", key="k")
            assert client.put("x", delay=1.5) == 8
            assert client.put_job("x") == Inserted(9, "inserted")


AT_OPTIONS = (*KEY_OPTIONS, "put-job.at", "put-job.within")


def test_put_at_a_moment(make: Maker) -> None:
    moment = datetime(2026, 12, 31, 18, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))
    script = [
        has(*AT_OPTIONS),
        (b"put-job 1 pri=65536 at=1798732800.25 ttr=60\r\nx\r\n", b"INSERTED 1\r\n"),
        (b"put-job 1 pri=65536 at=0 ttr=60 key=k taken=replace within=60\r\nx\r\n", b"REPLACED 1\r\n"),
    ]
    with make.to_peer(script) as client:
        assert client.put("x", at=moment) == 1
        assert client.put("x", at=0, key="k", taken="replace", within=60) == 1


def test_a_server_that_knows_no_moments_gets_a_delay_that_is_not_too_short(make: Maker) -> None:
    with make.to_peer([NONE, (b"put 65536 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")]) as client:
        assert client.put("x", at=1) == 1
        for options in ({"at": 1, "key": "k"}, {"key": "k", "taken": "replace", "within": 5}):
            with pytest.raises(UnsupportedError):
                client.put("x", **options)
    for ahead_s, delay in ((-1.0, 0), (0.0, 0), (0.001, 1), (59.0, 59), (59.5, 60)):
        session = Session(TextCodec("utf-8"), "default", ["default"], wall_s=lambda: 1000.0)
        data = partial(plain_put, b"x", 1, 9)
        plan = fallback.put_at(session, data, 1000.0 + ahead_s, "", lambda reply: reply.number)
        assert next(plan).data.endswith(b"put 1 %d 9 1\r\nx\r\n" % delay)


@pytest.mark.parametrize(
    "options",
    [
        {"at": datetime(2026, 12, 31, 18, 0)},  # noqa: DTZ001 - that is what is wrong
        {"at": -1},
        {"at": 2**33},
        {"at": "tomorrow"},
        {"at": 1, "delay": 1},
        {"within": 1},
        {"within": 1, "key": "k", "taken": "keep"},
        {"within": -1, "key": "k", "taken": "replace"},
    ],
)
def test_a_moment_that_is_none_is_refused_before_anything_is_sent(make: Maker, options: dict[str, Any]) -> None:
    with make.to_peer([(b"list-tubes\r\n", ok(b"---\n"))]) as client:
        with pytest.raises(ArgumentError):
            client.put("x", **options)
        assert client.tubes() == []


def test_the_lines_of_the_other_commands(make: Maker) -> None:
    features = (
        *("fractions", "find-job", "clear-tube", "snooze-job", "snooze-job.pri"),
        *("change-body", "move-jobs", "move-jobs.to", "cancel-job", "cancel-key"),
        *(f"change-job{option}" for option in ("", ".tube", ".pri", ".delay", ".ttr", ".expire")),
        *(f"fail-job{option}" for option in ("", ".pri", ".delay", ".dead")),
        *("stats-tubes", "stats-tubes.after", "stats-tubes.limit"),
        *("stats-histograms", "stats-histograms.after", "stats-histograms.limit"),
    )
    tubes = b"---\n- name: a\n  current-jobs-ready: 2\n- name: b\n  current-jobs-ready: 0\n"
    timed = (
        b'---\nbounds: {"job": [100, 250], "commands": [1]}\njob-ready: 3 450 1 2 0\nturn-commands: 1 2 0 1\ntubes:\n'
        b"- name: 07\n  job-ready: 2 300 0 2 0\n- name: b\n"
    )
    script = [
        has(*features),
        (b"release 3 7 0.25\r\n", b"RELEASED\r\n"),
        (b"pause-tube t 1.5\r\n", b"PAUSED\r\n"),
        (b"find-job t k\r\n", b"FOUND 3 1\r\nx\r\n"),
        (b"change-job 3 tube=u pri=1 delay=0 ttr=2 expire=0.001\r\n", b"CHANGED\r\n"),
        (b"change-job 3 pri=1\r\n", b"EXISTS 4\r\n"),
        (b"change-body 3 2\r\nxy\r\n", b"CHANGED\r\n"),
        (b"snooze-job 3 2.5\r\n", b"RELEASED\r\n"),
        (b"snooze-job 3 0 pri=7\r\n", b"NOT_FOUND\r\n"),
        (b"fail-job 3 0\r\n\r\n", b"RELEASED\r\n"),
        (b"fail-job 3 5 pri=1 delay=60\r\nno\r\nx\r\n", b"BURIED\r\n"),
        (b"fail-job 3 0 dead=now\r\n\r\n", b"BURIED\r\n"),
        (b"move-jobs t buried 4294967295\r\n", b"MOVED 9\r\n"),
        (b"move-jobs t ready 10 to=u\r\n", b"MOVED 10\r\n"),
        (b"move-jobs dead ready 4294967295\r\n", b"MOVED 3\r\n"),
        (b"cancel-job 3\r\n", b"CANCELLED\r\n"),
        (b"cancel-key t k\r\n", b"CANCELLED 7\r\n"),
        (b"stats-tubes after=a limit=2\r\n", ok(tubes)),
        (b"stats-histograms after=a limit=2\r\n", ok(timed)),
    ]
    with make.to_peer(script) as client:
        client.release(3, 7, 0.25)
        client.pause_tube("t", 1.5)
        assert client.find_job("t", "k").body == "x"
        client.change_job(3, tube="u", priority=1, delay=0, ttr=2, expire=0.001)
        with pytest.raises(ExistsError) as caught:
            client.change_job(3, priority=1)
        assert caught.value.id == 4
        client.change_body(3, "xy")
        client.snooze_job(3, 2.5)
        with pytest.raises(NotFoundError):
            client.snooze_job(3, priority=7)
        assert client.fail_job(3) is False
        assert client.fail_job(3, "no\r\nx", priority=1, delay=60) is True
        assert client.fail_job(3, dead=True) is True
        assert client.move_jobs("t", "buried") == 9
        assert client.move_jobs("t", "ready", "u", 10) == 10
        assert client.redrive("dead") == 3
        client.cancel_job(3)
        assert client.cancel_key("t", "k") == 7
        assert [(each.name, each.current_jobs_ready) for each in client.stats_tubes("a", 2)] == [("a", 2), ("b", 0)]
        page = client.stats_histograms("a", 2)
        assert page.bounds == {"job": (100, 250), "commands": (1,)}
        assert page.server == {"job-ready": Histogram(3, 450, (1, 2, 0)), "turn-commands": Histogram(1, 2, (0, 1))}
        assert page.tubes == {"07": {"job-ready": Histogram(2, 300, (0, 2, 0))}, "b": {}}


def test_a_page_of_a_list(make: Maker) -> None:
    fields = b"tube=t state=buried pri=1 ttr=60 age=0.25 delay=0 reserves=1 timeouts=2 releases=3 buries=4 kicks=5"
    more = b" attempt=2 attempts=3 key=gr\xc3\xbcn from=u died=1700000000.5 size=9 new=1"
    frames = b"JOBS 2 more=1 next=8\r\nJOB 7 2 %s%s\r\nab\r\nJOB 8 0 %s\r\n\r\n" % (fields, more, fields)
    options = ("list-jobs", "list-jobs.after", "list-jobs.bodies", "list-jobs.order")
    script = [
        has(*options),
        (b"list-jobs t buried 2 bodies=2\r\n", frames),
        (b"list-jobs t buried 1000 after=8\r\n", b"JOBS 0\r\n"),
        (b"list-jobs t ready 5 order=next\r\n", b"JOBS 1\r\nJOB 7 0 age=x\r\n\r\n"),
    ]
    with make.to_peer(script) as client:
        page = client.list_jobs("t", "buried", 2, bodies=2)
        assert page.next == 8
        first, second = page.jobs
        assert (first.id, first.tube, first.state, first.pri, first.ttr, first.age) == (7, "t", "buried", 1, 60, 0.25)
        assert (first.reserves, first.timeouts, first.releases, first.buries, first.kicks) == (1, 2, 3, 4, 5)
        assert (first.attempt, first.attempts, first.key, first.origin) == (2, 3, "grün", "u")
        assert (first.died, first.size, first.body) == (1700000000.5, 9, b"ab")
        assert (second.id, second.key, second.attempts, second.body) == (8, None, None, b"")
        page = client.list_jobs("t", "buried", after=page.next)
        assert (page.jobs, page.next) == ([], None)
        with pytest.raises(UnexpectedReplyError, match="age of job 7"):
            client.list_jobs("t", "ready", 5, order="next")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.put("x", key=""),
        lambda client: client.put("x", key="a b"),
        lambda client: client.put("x", key="a\n"),
        lambda client: client.put("x", key="a\x7f"),
        lambda client: client.put("x", key="ü" * 101),
        lambda client: client.put("x", key=b"k"),
        lambda client: client.put("x", taken="keep"),
        lambda client: client.put("x", key="k", taken="steal"),
        lambda client: client.put("x", key="k", until="ever"),
        lambda client: client.put("x", expire=-1),
        lambda client: client.put("x", expire="1"),
        lambda client: client.put("x", delay=-0.5),
        lambda client: client.put("x", delay=float("nan")),
        lambda client: client.put("x", delay=float("inf")),
        lambda client: client.put("x", delay=2.0**32),
        lambda client: client.put("x", key="k", ttr=0.5),
        lambda client: client.put("x", key="k", tube="a b"),
        lambda client: client.put("x", meta={"": "a"}),
        lambda client: client.put("x", meta={"a": 1}),
        lambda client: client.put("x", meta={"a": "b" * 1023}),
        lambda client: client.put("x", meta={str(number): "" for number in range(17)}),
        lambda client: client.put("x", meta={"a": "\ud800"}),
        lambda client: client.find_job("t", "a b"),
        lambda client: client.find_job("t", "\ud800"),
        lambda client: client.change_job(-1, priority=1),
        lambda client: client.change_job(1, priority=2**32),
        lambda client: client.change_job(1, tube=""),
        lambda client: client.snooze_job(1, -1),
        lambda client: client.fail_job(1, delay=1, dead=True),
        lambda client: client.clear_tube("t", "reserved"),
        lambda client: client.clear_tube("a b"),
        lambda client: client.move_jobs("t", "reserved", "u"),
        lambda client: client.list_jobs("t", "lost"),
        lambda client: client.list_jobs("t", "ready", 0),
        lambda client: client.list_jobs("t", "ready", 1001),
        lambda client: client.list_jobs("t", "ready", order="last"),
        lambda client: client.stats_tubes(limit=0),
        lambda client: client.stats_histograms(limit=0),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_sent(make: Maker, call: Callable[[Any], object]) -> None:
    with pytest.raises(ArgumentError):
        call(make(("127.0.0.1", 1), backoff=Backoff(attempts=1)))


def test_durations_have_milliseconds() -> None:
    written = [extensions.seconds(each, "delay") for each in (0, 5, 2.0, 0.1 + 0.2, 1 / 3, 0.0004, 2**32 - 1)]
    assert written == [b"0", b"5", b"2", b"0.3", b"0.333", b"0", b"4294967295"]


# --- Pipelines --------------------------------------------------------------------------------------------------------


def test_a_pipeline_asks_before_it_is_sent(make: Maker) -> None:
    both = b"put 65536 0 60 1\r\nx\r\n" + PUT_JOB + b" key=k\r\ny\r\nclear-tube t\r\n"
    script = [has(*KEY_OPTIONS, "clear-tube"), (both, b"INSERTED 1\r\nEXISTS 2\r\nCLEARED 3\r\n")]
    with make.to_peer(script) as client:
        with client.pipeline() as p:
            results = [p.put("x"), p.put("y", key="k"), p.clear_tube("t")]
        assert [each.result() for each in results] == [1, 2, 3]


def test_a_pipeline_does_what_it_can_on_an_old_server(make: Maker) -> None:
    script = [
        NONE,
        (b"put 65536 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"),
        (b"use t\r\nput 65536 0 60 1\r\nz\r\n", b"USING t\r\nINSERTED 2\r\n"),
        (b"delete 1\r\n", b"DELETED\r\n"),
    ]
    with make.to_peer(script) as client:
        with client.pipeline(raise_errors=False) as p:
            results = [p.put("x"), p.put("delete 1\r\n", key="k"), p.put_job("z", tube="t"), p.delete(1)]
        assert results[0].result() == 1
        assert isinstance(results[1].error, UnsupportedError)
        assert results[2].result() == Inserted(2, "inserted")
        assert results[3].error is None


def test_a_put_with_a_token_is_done_once_and_may_be_sent_again() -> None:
    with FakeServer() as server, Client(server.address) as client:
        assert [client.put("a", once="t"), client.put("b", once="t", once_for=9)] == [1, 1]
        assert client.put_job("c", once="t").outcome == "exists"
        assert [client.put("d", retry=True), client.put("d", retry=True)] == [2, 3]
        for wrong in (
            {"once_for": 5},
            {"once": "t", "once_for": 0},
            {"once": "t", "once_for": 86_401},
            {"once": "t" * 65},
        ):
            with pytest.raises(ArgumentError):
                client.put("e", **wrong)


async def put_both(client: Any) -> list[int]:
    async with client:
        return [await client.put("a"), await client.put("b", retry=True)]


@pytest.mark.parametrize("kind", [Client, Pool, AsyncClient, AsyncPool])
def test_a_put_whose_reply_is_lost_is_sent_again_and_done_once(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[bytes] = []
    receive = fakeserver.Peer.data_received

    def data_received(peer: fakeserver.Peer, data: bytes) -> None:
        receive(peer, data)
        if b" once=" in data and not lost:
            lost.append(data)
            peer.transport.abort()

    monkeypatch.setattr(fakeserver.Peer, "data_received", data_received)
    with FakeServer() as server:
        client = kind([server.url])
        if kind in {Client, Pool}:
            with client:
                ids = [client.put("a"), client.put("b", retry=True)]
        else:
            ids = asyncio.run(put_both(client))
        assert ids == [1, 2]
        assert [job.text for job in server.jobs()] == ["a", "b"]
    assert lost


def test_a_put_that_is_not_to_be_sent_again_is_a_plain_one(make: Maker) -> None:
    with make.to_peer([(b"put 65536 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")]) as client:
        assert client.put("x", retry=False, key=None) == 1
