"""What commands of an extension do on a server that has only beanstalkd's. No I/O.

Each is a plan over commands that every server knows. No job is lost, whatever breaks; other clients may see what is
half done, as each function says. A tube that is not there is not made, and the used tube and the watch list stay.
"""

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from beanpole.client.extensions import ID_MAX
from beanpole.client.job import JobInfo
from beanpole.client.plan import Plan, Shipment, exchange
from beanpole.client.session import Session, error_of
from beanpole.client.stats import Stats, StatsJob, StatsTube
from beanpole.errors import OutOfMemoryError, TooManyTubesError
from beanpole.protocol import wire
from beanpole.protocol.replies import Word

if TYPE_CHECKING:
    from beanpole.protocol.wire import Reply

T = TypeVar("T")

IDS_PER_STEP = 1_024  # ids that are asked for in one round trip
STEPS_MAX = 10  # round trips of one list

PEEKS = {"ready": b"peek-ready", "delayed": b"peek-delayed", "buried": b"peek-buried"}


def in_tube(session: Session[Any], tube: str, *commands: bytes) -> Plan["list[Reply]"]:
    prefix = session.prefix(tube)
    shipment = Shipment(prefix + b"".join(commands), len(commands) + bool(prefix))
    broken = yield shipment
    # A refusal of the tube may be what broke the connection.
    session.check_prefixes(shipment.replies[: bool(prefix)], commands[0], session.used)
    if broken is not None:
        raise broken
    return shipment.replies[-len(commands) :]


def one(*words: object) -> Plan["Reply"]:
    verb, *values = words
    assert isinstance(verb, bytes)
    return (yield from exchange(wire.command(verb, *values), 1))[0]


def expect(reply: "Reply", *words: int) -> "Reply":
    """The reply, if it is one of these. Raises its error."""
    if reply.word not in words:
        raise error_of(reply)
    return reply


def count_of(tube: str, state: str) -> Plan[int]:
    """How many jobs of a tube are in a state; 0 if there is no such tube."""
    reply = expect((yield from one(b"stats-tube", tube)), Word.OK, Word.NOT_FOUND)
    return int(StatsTube.parse(reply.body)[f"current-jobs-{state}"]) if reply.word == Word.OK else 0


# --- Putting ----------------------------------------------------------------------------------------------------------


def put(session: Session[Any], data: bytes, tube: str, made: Callable[["Reply"], T]) -> Plan[T]:
    reply = (yield from in_tube(session, tube, data))[0]
    return made(expect(reply, Word.INSERTED))


def put_at(
    session: Session[Any], data: Callable[[int], bytes], at_s: float, tube: str, made: Callable[["Reply"], T]
) -> Plan[T]:
    """Puts a job with a delay up to a moment, by the client's clock; a whole second more, so that it is not early."""
    return (yield from put(session, data(max(math.ceil(at_s - session.wall_s()), 0)), tube, made))


# --- Clearing ---------------------------------------------------------------------------------------------------------


def clear(session: Session[Any], tube: str, states: Collection[str]) -> Plan[int]:
    """Deletes as many jobs as there are in the beginning, each when it is the next of its state.

    A job that somebody reserves in between stays; one that is then buried or released at that moment goes all the same.
    """
    cleared = 0
    for state in dict.fromkeys(states):
        left = yield from count_of(tube, state)
        peek = PEEKS[state] + b"\r\n"
        found = (yield from in_tube(session, tube, peek))[0] if left else None
        while found is not None and left and expect(found, Word.FOUND, Word.NOT_FOUND).word == Word.FOUND:
            gone, found = yield from in_tube(session, tube, wire.command(b"delete", found.number), peek)
            cleared += expect(gone, Word.DELETED, Word.NOT_FOUND).word == Word.DELETED
            left -= 1
    return cleared


# --- Moving -----------------------------------------------------------------------------------------------------------


def move(session: Session[Any], tube: str, state: str, to: str, bound: int) -> Plan[int]:
    """Puts a copy of each job, and then deletes the job.

    A ready job is reserved for that, so that nobody else has it; a delayed or buried one stays what it is until it is
    deleted, so that it is not ready if this ends in the middle. A full tube ends it.
    """
    left = min(bound, (yield from count_of(tube, state)))
    moved = 0
    while left:
        found = (yield from in_tube(session, tube, PEEKS[state] + b"\r\n"))[0]
        if expect(found, Word.FOUND, Word.NOT_FOUND).word == Word.NOT_FOUND:
            break
        left -= 1
        asked = wire.command(b"stats-job", found.number)
        if state == "ready":
            asked += wire.command(b"reserve-job", found.number)
        stats, *taken = yield from exchange(asked, 1 + (state == "ready"))
        if taken and taken[0].word == Word.RESERVED:
            session.held.add(found.number)
        if Word.NOT_FOUND in {stats.word, *(each.word for each in taken)}:
            continue  # somebody was faster
        for each in taken:
            expect(each, Word.RESERVED)
        job = StatsJob.parse(expect(stats, Word.OK).body)
        try:
            yield from copy(session, job, found.body, to)
        except TooManyTubesError:
            raise  # the connection is closed, and the job is ready again
        except OutOfMemoryError:
            break
        finally_gone = yield from one(b"delete", job.id)
        session.held.discard(job.id)
        moved += expect(finally_gone, Word.DELETED, Word.NOT_FOUND).word == Word.DELETED
    return moved


def copy(session: Session[Any], job: StatsJob, body: bytes, to: str) -> Plan[None]:
    """Puts a copy of a job into a tube. If that is refused, a job that was reserved for it is given back.

    Raises what the server said.
    """
    delay_s = job.time_left if job.state == "delayed" else 0
    reply = (yield from in_tube(session, to, wire.put(body, job.pri, delay_s, job.ttr)))[0]
    if reply.word == Word.INSERTED:
        return
    if reply.word == Word.BURIED:
        yield from one(b"delete", reply.number)
    if job.id in session.held:
        yield from one(b"release", job.id, job.pri, 0)
        session.held.discard(job.id)
    raise error_of(reply)


# --- Listing ----------------------------------------------------------------------------------------------------------


def listed(
    session: Session[Any],
    tube: str,
    state: str,
    limit: int,
    after: int,
    page: Callable[[list[JobInfo], int | None], T],
) -> Plan[T]:
    """Asks for id after id, from the one behind `after` up to the newest that the server is known to have had."""
    jobs: list[JobInfo] = []
    left = yield from count_of(tube, state)
    last = yield from newest(session, tube)
    id = after + 1
    for _ in range(STEPS_MAX):
        if (after == 0 and len(jobs) >= left) or not left or id > last:
            return page(jobs, None)
        ids = list(range(id, min(id + IDS_PER_STEP, ID_MAX + 1)))
        replies = yield from exchange(wire.with_ids(b"stats-job", ids), len(ids))
        for reply in replies:
            if expect(reply, Word.OK, Word.NOT_FOUND).word == Word.OK:
                stats = StatsJob.parse(reply.body)
                last = max(last, stats.id + IDS_PER_STEP)
                if stats.tube == tube and stats.state == state:
                    jobs.append(info_of(stats))
                    if len(jobs) == limit:
                        return page(jobs, stats.id)
        id = ids[-1] + 1
    return page(jobs, id - 1)


def newest(session: Session[Any], tube: str) -> Plan[int]:
    """An id up to which jobs may be found: no command says the newest of a server that has restarted."""
    peeks = yield from in_tube(session, tube, *(verb + b"\r\n" for verb in PEEKS.values()))
    ids = [expect(reply, Word.FOUND, Word.NOT_FOUND).number for reply in peeks]
    (stats,) = yield from in_tube(session, session.using, b"stats\r\n")  # a tube that is used does not go
    return max(Stats.parse(expect(stats, Word.OK).body).total_jobs, *ids) + IDS_PER_STEP


def info_of(stats: StatsJob) -> JobInfo:
    names = ("tube", "state", "pri", "ttr", "reserves", "timeouts", "releases", "buries", "kicks")
    return JobInfo(stats.id, age=stats.age, delay=stats.delay, **{name: getattr(stats, name) for name in names})
