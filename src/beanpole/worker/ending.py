"""What the server hears of an attempt that has ended, and what the log says of it.

Of an error a job keeps a line that says it, and where it came from, in a few bytes.
"""

import contextlib
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from beanpole.errors import (
    BeanpoleError,
    BuriedError,
    ConnectionLostError,
    JobLostError,
    NotFoundError,
    OutOfMemoryError,
    ReplyError,
)
from beanpole.protocol.limits import TEXT_BYTES_MAX
from beanpole.worker import events
from beanpole.worker.attempt import Cut
from beanpole.worker.calls import Ended
from beanpole.worker.client import WorkerClient
from beanpole.worker.handler import Handler, Outcome, Task, name_of
from beanpole.worker.log import Log
from beanpole.worker.policy import ON_PURPOSE, Bury, Dead, Retry, exponential, next_delay_s

HEADLINE_BYTES_MAX = 512
"""Bytes of what a job keeps of an error's own words: the rest of what there is room for says where it came from."""

OWN = "beanpole.worker"  # the frames of this package say nothing of the user's mistake


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of an attempt."""

    outcome: Outcome
    delay_s: float | None = None  # seconds until the next attempt; None: there is none, or the server says when it is
    is_dead: bool = False
    """Whether no attempt can succeed or is left; a job that its handler buried on purpose is not dead."""
    lost: str = ""  # what the server, or the connection, said of a job that is lost


async def send_outcome(
    client: WorkerClient, task: Task[Any], handler: Handler, result: Cut | Ended, log: Log
) -> Ending:
    """Says what came of a job.

    Raises NotFoundError or ConnectionLostError if the job is lost.
    """
    if result is Cut.LOST:
        return Ending(Outcome.LOST)
    if result is None:
        await client.delete(task.id)
        return Ending(Outcome.DONE)
    try:
        if isinstance(result, Cut):
            await client.give_back(task.id, task.stats.pri)
            return Ending(Outcome.RELEASED, 0)
        return await _send_error(client, task, handler, result, log)
    except BuriedError:  # the server's answer to a release for which it has no room
        return Ending(Outcome.BURIED)


async def send_done(client: WorkerClient, tasks: Sequence[Task[Any]]) -> dict[int, Ending]:
    """Says in one round trip that jobs are done; returns what came of each. Raises BeanpoleError.

    What nobody has answered is not among them: that is to be said again, of each job alone.
    """
    endings = {}
    for task, error in zip(tasks, await client.delete_each([task.id for task in tasks]), strict=True):
        is_open = isinstance(error, ConnectionLostError) and await client.has_kept(task.id)
        if is_open or isinstance(error, JobLostError):
            continue
        if isinstance(error, NotFoundError | ConnectionLostError):
            endings[task.id] = Ending(Outcome.LOST, lost=str(error))
        elif isinstance(error, BeanpoleError):
            raise error
        else:
            endings[task.id] = Ending(Outcome.DONE)
    return endings


async def _send_error(
    client: WorkerClient, task: Task[Any], handler: Handler, error: BaseException, log: Log
) -> Ending:
    """Says that an attempt has failed. Raises what :func:`send_outcome` does, and BuriedError."""
    if task.counted and not isinstance(error, Bury | Dead):
        return await _send_failure(client, task, error)
    try:
        delay_s = next_delay_s(error, task.attempt, handler.max_attempts, handler.backoff)
    except BaseException as wrong:  # noqa: BLE001 - a user's function; the failure of the job stands
        backoff = name_of(handler.backoff)
        log.write(events.BACKOFF_FAILED, **about(task), backoff=backoff, **why(wrong), exc_info=traceback_of(wrong))
        delay_s = next_delay_s(error, task.attempt, handler.max_attempts, exponential())
    if delay_s is not None:
        await client.release(task.id, task.stats.pri, delay_s)
        return Ending(Outcome.RETRIED, delay_s)
    if not isinstance(error, Bury):
        return await _send_death(client, task, error)
    if await _keeps_buried(client, task, error):
        await _send_death(client, task, error)
    else:
        await client.bury(task.id, task.stats.pri)
    return Ending(Outcome.BURIED)


async def _keeps_buried(client: WorkerClient, task: Task[Any], error: Bury) -> bool:
    """Whether a job that is dead stays where it is, buried: then its reason can be said, for which bury has no room."""
    if not str(error) or "get-rules" not in await client.features():
        return False
    try:
        return "dead" not in await client.get_rules(task.tube)
    except NotFoundError:
        return True
    except ReplyError:  # perhaps it has no right to ask
        return False


async def _send_failure(client: WorkerClient, task: Task[Any], error: BaseException) -> Ending:
    """Says to a server that counts attempts that this one has failed, and why: it says what follows."""
    delay_s = error.delay if isinstance(error, Retry) else None
    is_dead = await client.fail_job(task.id, reason_text(error), delay=delay_s)
    return Ending(Outcome.BURIED, is_dead=True) if is_dead else Ending(Outcome.RETRIED, delay_s)


async def _send_death(client: WorkerClient, task: Task[Any], error: BaseException) -> Ending:
    """Lets a job be dead, with the reason where the server keeps one; elsewhere it is buried."""
    if "fail-job.dead" in await client.features():
        try:
            await client.fail_job(task.id, reason_text(error), dead=True)
        except OutOfMemoryError:  # no room for the reason on the disk: bury needs less
            await client.bury(task.id, task.stats.pri)
    else:
        await client.bury(task.id, task.stats.pri)
    return Ending(Outcome.BURIED, is_dead=True)


def write_ending(log: Log, task: Task[Any], ending: Ending, error: object, *, log_done: bool) -> None:
    """Logs what came of an attempt, and of which error; `log_done`: also of one without."""
    told = about(task) | why(error)
    if ending.outcome is Outcome.LOST:
        log.write(events.JOB_LOST, **about(task), **({"error": ending.lost} if ending.lost else {}))
    elif ending.outcome is Outcome.RELEASED:
        log.write(events.JOB_RELEASED, **about(task))
    elif ending.outcome is Outcome.BURIED:
        event = events.JOB_DEAD if ending.is_dead else events.JOB_BURIED
        log.write(event, **told, exc_info=unexpected(error))
    elif ending.outcome is Outcome.RETRIED:
        event = events.JOB_RETRIED if isinstance(error, Retry) else events.JOB_FAILED
        log.write(event, **told, delay_s=ending.delay_s)
    elif log_done:
        log.write(events.JOB_DONE, **about(task))


def about(task: Task[Any]) -> dict[str, object]:
    """Of which job a line is, and of which attempt at it."""
    return {"id": task.id, "tube": task.tube, "attempt": task.attempt, "max_attempts": task.max_attempts}


def why(error: object) -> dict[str, str]:
    """The cause for the log: the reason given by the handler, or else the error."""
    said = headline(error) if isinstance(error, BaseException) else ""
    return {"reason" if isinstance(error, ON_PURPOSE) else "error": said} if said else {}


def unexpected(error: object) -> object:
    """The traceback of an error that the handler did not raise on purpose; or of the one behind it, if it did."""
    return traceback_of(error.__cause__ if isinstance(error, ON_PURPOSE) else error)


def traceback_of(error: object) -> object:
    """An exception in the form from which loggers format a traceback."""
    return (type(error), error, error.__traceback__) if isinstance(error, BaseException) else None


# --- What is said of an error -----------------------------------------------------------------------------------------


def headline(error: BaseException) -> str:
    """What an error says: that of a handler which says what it wants is its reason, maybe none."""
    text = ""
    with contextlib.suppress(BaseException):  # a user's __str__, which may do anything: it must not end the worker
        text = str(error)
    return text if isinstance(error, ON_PURPOSE) else f"{type(error).__name__}: {text}"


def reason_text(error: BaseException) -> str:
    """The headline of an error, then the last lines of its traceback, as far as ``fail-job`` takes them.

    Of an error that was raised on purpose it is the traceback of the one behind it (``raise Dead("...") from error``).
    """
    shown = error.__cause__ if isinstance(error, ON_PURPOSE) else error
    if shown is None:
        return _end_cut(headline(error), TEXT_BYTES_MAX)
    head = _end_cut(headline(error), HEADLINE_BYTES_MAX)
    lines = _traceback_of(shown, with_headline=shown is not error)
    tail = "\n".join(lines).encode("utf-8", "backslashreplace")
    left = TEXT_BYTES_MAX - len(head.encode()) - 1
    end = tail[-left:].decode("utf-8", "ignore")
    if len(tail) > left:
        end = end.partition("\n")[2] or end  # it begins with the rest of a line
    return f"{head}\n{end}".strip()


def _traceback_of(error: BaseException, *, with_headline: bool) -> list[str]:
    """The lines of the traceback of an error that a handler raised, and of those behind it."""
    try:
        made = traceback.TracebackException(type(error), error, _without_own(error.__traceback__), compact=True)
        lines = "".join(made.format()).rstrip().splitlines()
        if not with_headline:  # which may have several lines, and notes behind it
            start = len(lines) - len("".join(made.format_exception_only()).rstrip().splitlines())
            del lines[start : start + len(headline(error).rstrip().splitlines())]
    except Exception:  # noqa: BLE001 - what a user's error does when it is shown
        return []
    return lines[1:] if lines and lines[0].startswith("Traceback ") else lines


def _without_own(found: TracebackType | None) -> TracebackType | None:
    while found is not None and str(found.tb_frame.f_globals.get("__name__")).startswith(OWN):
        found = found.tb_next
    return found


def _end_cut(text: str, most: int) -> str:
    """A text of at most so many bytes, whole characters."""
    return text.encode("utf-8", "backslashreplace")[:most].decode("utf-8", "ignore")
