"""What a worker says to a server that counts the attempts at a job, and to one that does not."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from beanpole import Bury, Dead, JsonCodec, Outcome, Retry, Task, Worker
from tests.unit.client.peer import SILENCE, Peer, Steps

HELLO = b"watch emails\r\nignore default\r\nlist-extensions\r\n"
LISTED = "".join(f"- {each}\n" for each in ("fail-job", "fail-job.delay", "reserve-many", "snooze-job"))
RESERVE = b"reserve-many 1 30\r\n"
FRAME = (
    b"JOBS 1\r\nJOB 7 4 tube=emails state=reserved pri=9 ttr=60 age=2.5 delay=0 reserves=4 timeouts=1 releases=2"
    b" buries=0 kicks=0%s\r\nbody\r\n"
)
COUNTED = FRAME % b" attempt=2 attempts=3"
TOUCH = (b"touch 7\r\n", b"TOUCHED\r\n")


def greeted(listed: str) -> bytes:
    return b"WATCHING 2\r\nWATCHING 1\r\nOK %d\r\n---\n%s\r\n" % (len(listed) + 4, listed.encode())


GREETED = greeted(LISTED)


def serve(
    handler: Callable[[Task[str]], object], frame: bytes, *steps: tuple[bytes, bytes], listed: str = LISTED
) -> tuple[list[tuple[Task[str], Outcome]], list[Any]]:
    """Lets a worker do one job; returns what came of it, and what was logged about it."""
    capture = structlog.testing.LogCapture()
    ends: list[tuple[Task[str], Outcome]] = []
    with Peer([(HELLO, greeted(listed)), (RESERVE, frame), TOUCH, *steps]) as peer:
        worker = Worker(peer.address, 1, logger=structlog.wrap_logger(None, processors=[capture]))
        worker.handler("emails", max_attempts=5, backoff=lambda _: 60)(handler)

        @worker.after
        def end(task: Task[str], outcome: Outcome) -> None:
            ends.append((task, outcome))
            worker.stop()

        asyncio.run(asyncio.wait_for(worker.serve(), 20))
    return ends, [line for line in capture.entries if line["event"].startswith("job")]


def failing(error: BaseException) -> Callable[[Task[str]], object]:
    def fail(_: Task[str]) -> None:
        raise error

    return fail


RAISED = f"""
  File "{__file__}", line {failing.__code__.co_firstlineno + 2}, in fail
    raise error"""
"""The traceback of what such a handler raises."""


def fail_job(text: str, options: str = "") -> bytes:
    return f"fail-job 7 {len(text)}{options}\r\n{text}\r\n".encode()


def test_a_task_has_what_came_with_the_job() -> None:
    [(task, outcome)], logged = serve(lambda _: None, COUNTED, (b"delete 7\r\n", b"DELETED\r\n"))
    assert outcome is Outcome.DONE
    assert (task.id, task.body, task.tube) == (7, "body", "emails")
    assert (task.attempt, task.max_attempts, task.counted) == (2, 3, True)
    stats = task.stats
    assert (stats.pri, stats.ttr, stats.age, stats.state, stats.time_left) == (9, 60, 2, "reserved", 60)
    assert (stats.reserves, stats.timeouts, stats["releases"], stats["time-left"]) == (4, 1, 2, 60)
    assert logged == []


@pytest.mark.parametrize(
    ("error", "said", "delay_s"),
    [
        (ValueError("bad luck"), fail_job(f"ValueError: bad luck{RAISED}"), None),
        (Retry("too early"), fail_job("too early"), None),
        (Retry("too early", delay=1.5), fail_job("too early", " delay=1.5"), 1.5),
        (Retry(), fail_job(""), None),
    ],
)
def test_a_failure_is_the_business_of_a_server_that_counts(error: BaseException, said: bytes, delay_s: object) -> None:
    [(_, outcome)], [line] = serve(failing(error), COUNTED, (said, b"RELEASED\r\n"))
    assert outcome is Outcome.RETRIED
    assert line["event"] == ("job retried" if isinstance(error, Retry) else "job failed")
    assert (line["delay_s"], line["attempt"], line["max_attempts"]) == (delay_s, 2, 3)


def test_the_server_says_that_a_job_is_dead() -> None:
    said = fail_job(f"ValueError: bad luck{RAISED}")
    [(_, outcome)], [line] = serve(failing(ValueError("bad luck")), COUNTED, (said, b"BURIED\r\n"))
    assert outcome is Outcome.BURIED
    assert (line["event"], line["error"]) == ("job dead", "ValueError: bad luck")


KNOWS_DEATH = LISTED + "- fail-job.dead\n"
UNCOUNTED_LAST = (FRAME % b"").replace(b"reserves=4", b"reserves=5")


@pytest.mark.parametrize("frame", [COUNTED, FRAME % b"", UNCOUNTED_LAST], ids=["counted", "own", "last"])
def test_dead_is_dead_whoever_counts_and_keeps_why(frame: bytes) -> None:
    said = fail_job("no such customer", " dead=now")
    [(_, outcome)], [line] = serve(failing(Dead("no such customer")), frame, (said, b"BURIED\r\n"), listed=KNOWS_DEATH)
    assert (outcome, line["event"], line["reason"]) == (Outcome.BURIED, "job dead", "no such customer")
    assert line["exc_info"] is None


def test_the_workers_own_last_attempt_says_why() -> None:
    said = fail_job(f"ValueError: bad luck{RAISED}", " dead=now")
    steps = (said, b"BURIED\r\n")
    [(_, outcome)], [line] = serve(failing(ValueError("bad luck")), UNCOUNTED_LAST, steps, listed=KNOWS_DEATH)
    assert (outcome, line["event"], line["error"]) == (Outcome.BURIED, "job dead", "ValueError: bad luck")
    assert line["exc_info"][0] is ValueError


@pytest.mark.parametrize("frame", [COUNTED, FRAME % b"", UNCOUNTED_LAST], ids=["counted", "own", "last"])
def test_the_dead_are_buried_where_the_server_keeps_no_reason(frame: bytes) -> None:
    [(_, outcome)], [line] = serve(failing(Dead("never")), frame, (b"bury 7 9\r\n", b"BURIED\r\n"))
    assert (outcome, line["event"], line["reason"]) == (Outcome.BURIED, "job dead", "never")


def test_the_dead_are_buried_where_there_is_no_room_for_the_reason() -> None:
    steps = ((fail_job("never", " dead=now"), b"OUT_OF_MEMORY\r\n"), (b"bury 7 9\r\n", b"BURIED\r\n"))
    [(_, outcome)], [line] = serve(failing(Dead("never")), COUNTED, *steps, listed=KNOWS_DEATH)
    assert (outcome, line["event"]) == (Outcome.BURIED, "job dead")


def test_bury_buries_whoever_counts() -> None:
    [(_, outcome)], [line] = serve(failing(Bury("why")), COUNTED, (b"bury 7 9\r\n", b"BURIED\r\n"))
    assert (outcome, line["event"], line["reason"]) == (Outcome.BURIED, "job buried", "why")


def test_a_job_that_the_server_does_not_count_is_the_workers_business() -> None:
    """Its fourth reservation is attempt 4 of 5."""
    [(task, outcome)], [line] = serve(failing(ValueError()), FRAME % b"", (b"release 7 9 60\r\n", b"RELEASED\r\n"))
    assert outcome is Outcome.RETRIED
    assert (task.attempt, task.max_attempts, task.counted, line["delay_s"]) == (4, 5, False, 60)


@pytest.mark.parametrize("frame", [COUNTED, FRAME % b""])
def test_a_worker_that_stops_puts_the_job_off_which_is_no_attempt(frame: bytes) -> None:
    running: list[Worker] = []

    async def hang(_: Task[str]) -> None:
        running[0].stop()
        await asyncio.sleep(100)

    with Peer([(HELLO, GREETED), (RESERVE, frame), TOUCH, (b"snooze-job 7 0\r\n", b"RELEASED\r\n")]) as peer:
        worker = Worker(peer.address, 1, grace=0.01)
        running.append(worker)
        worker.handler("emails")(hang)
        asyncio.run(asyncio.wait_for(worker.serve(), 20))
    assert (worker.counters.released, worker.counters.failed) == (1, 0)


CANCEL = b"cancel-reserve\r\n"
GREETED_CANCELLING = greeted(LISTED + "- cancel-reserve\n")


@pytest.mark.parametrize(
    "steps",
    [
        [(CANCEL, b"TIMED_OUT\r\nCANCELLED\r\n")],
        [(CANCEL, COUNTED + b"NOT_WAITING\r\n"), TOUCH, (b"snooze-job 7 0\r\n", b"RELEASED\r\n")],
        [(CANCEL, SILENCE)],
    ],
    ids=["nothing came", "a job came", "no answer"],
)
def test_a_worker_that_stops_ends_its_reserve_without_losing_a_job(steps: Steps) -> None:
    workers: list[Worker] = []

    def stop() -> bytes:
        workers[0].stop()
        return b""

    with Peer([(HELLO, GREETED_CANCELLING), (RESERVE, stop), *steps]) as peer:
        workers.append(Worker(peer.address, 1))
        workers[0].handler("emails")(failing(AssertionError("it was called")))
        asyncio.run(asyncio.wait_for(workers[0].serve(), 20))
    assert (workers[0].counters.failed, workers[0].counters.lost) == (0, 0)
    assert workers[0].counters.released == workers[0].counters.reserved == len(steps) // 3


def test_a_body_that_cannot_be_decoded_is_buried_unseen() -> None:
    """Its numbers are asked for, as they did not come with a job."""
    stats = b"---\nid: 7\ntube: emails\npri: 9\nreserves: 2\n"
    script: Steps = [
        (HELLO, GREETED),
        (RESERVE, COUNTED),
        (b"touch 7\r\nstats-job 7\r\n", b"TOUCHED\r\nOK %d\r\n%s\r\n" % (len(stats), stats)),
        (b"bury 7 9\r\n", b"BURIED\r\n"),
    ]
    with Peer(script) as peer:
        worker = Worker(peer.address, 1, codec=JsonCodec())
        worker.handler("emails")(failing(AssertionError("it was called")))
        worker.after(lambda *_: worker.stop())
        asyncio.run(asyncio.wait_for(worker.serve(), 20))
    assert worker.counters.buried == 1


def test_a_job_that_is_lost_before_it_began_is_left_alone() -> None:
    """Its TTR ran out while a handler blocked the loop, and nobody read the answer to the reserve."""
    workers: list[Worker] = []

    def stop() -> bytes:
        workers[0].stop()
        return b""

    lost = [(RESERVE, COUNTED), (b"touch 7\r\n", b"NOT_FOUND\r\n")]
    end = [(RESERVE, stop), (CANCEL, b"TIMED_OUT\r\nCANCELLED\r\n")]
    with Peer([(HELLO, GREETED_CANCELLING), *lost, *end]) as peer:
        workers.append(Worker(peer.address, 1))
        workers[0].handler("emails")(failing(AssertionError("it was called")))
        asyncio.run(asyncio.wait_for(workers[0].serve(), 20))
    assert (workers[0].counters.failed, workers[0].counters.lost) == (0, 1)
