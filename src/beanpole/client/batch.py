"""Batches: many commands a round trip. No I/O.

One command for many jobs where the server has that, else one for each of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from beanpole.client import extensions
from beanpole.client.about import About, about, named
from beanpole.client.job import Job, job_id
from beanpole.client.plan import Plan, Queue, Result, Shipment, ask, exchange, has, run_call
from beanpole.client.ruling import Rules, pattern_bytes
from beanpole.client.scheduling import Schedule, schedules_of
from beanpole.client.session import ENDING, INSERTED, USED, Session, refusal_of
from beanpole.errors import (
    ArgumentError,
    BatchError,
    BeanpoleError,
    BodyError,
    ConnectionLostError,
    DeadlineSoonError,
    NotFoundError,
    TimedOutError,
    UnexpectedReplyError,
    UnsupportedError,
)
from beanpole.limits import PRI_MAX, RESERVE_TIMEOUT_S_MAX
from beanpole.protocol import wire
from beanpole.protocol.limits import FRAMES_MAX
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call, Reply

BATCH_BYTES = 262_144
"""Bytes of commands after which a batch waits for its replies: enough to hide the way, not too many to lose."""

BATCH_COMMANDS = 4_096  # commands after which a batch waits for its replies

B = TypeVar("B")
T = TypeVar("T")

PUT_LINE_BYTES = 40  # about the bytes of a put besides its body, to cut batches by size


# --- Many of one kind -------------------------------------------------------------------------------------------------


def pieces(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    piece: list[bytes] = []
    size = 0
    for body in bodies:
        piece.append(body)
        size += len(body) + PUT_LINE_BYTES
        if size >= BATCH_BYTES or len(piece) >= BATCH_COMMANDS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def put_many(
    session: Session[B], bodies: Iterable[B], priority: int, delay: int, ttr: int, tube: str = USED
) -> Plan[list[int]]:
    """Puts a job for each body and returns their ids. After a shipment with an error nothing more is sent."""
    if isinstance(bodies, str | bytes):
        raise ArgumentError("put_many takes a list of bodies, or any iterable of them, and not one body")
    encode = session.codec.encode
    ids: list[int] = []
    for piece in pieces(encode(body) for body in bodies):
        data = wire.puts(piece, priority, delay, ttr)
        prefix = session.prefix(tube)
        what = about(b"put\r\n", session.used)
        shipment = Shipment(prefix + data, len(piece) + bool(prefix))
        broken = yield shipment
        replies = shipment.replies
        if prefix and replies:
            session.check_prefixes([replies.pop(0)], b"put\r\n", session.used)
        ids += [reply.number for reply in replies if reply.word == INSERTED]
        if broken is not None or any(reply.word != INSERTED for reply in replies):
            done: list[object] = [*ids[: len(ids) - sum(reply.word == INSERTED for reply in replies)]]
            done += [reply.number if reply.word == INSERTED else refusal_of(reply, what) for reply in replies]
            done += [broken] * (len(piece) - len(replies))
            raise _failure(done, broken)
    return ids


def features(session: Session[Any]) -> Plan[frozenset[str]]:
    yield from ask(session)
    return session.features or frozenset()


def list_rules(session: Session[Any]) -> Plan[list[Rules]]:
    found: list[Rules] = []
    while True:
        data, needs = extensions.line(b"list-rules", after=pattern_bytes(found[-1].pattern) if found else None)
        page: list[Rules] = yield from run_call(session, Call(data, Word.OK, take_rules, needs=needs))
        if not page:
            return found
        found += page


def all_schedules(session: Session[Any], bodies: int | None) -> Plan[list[Schedule]]:
    found: list[Schedule] = []
    while True:
        data, needs = extensions.line(
            b"list-schedules",
            after=wire.tube_name(found[-1].name) if found else None,
            bodies=extensions.optional(bodies, extensions.whole, PRI_MAX, "bodies"),
        )
        page: list[Schedule] = yield from run_call(session, Call(data, Word.SCHEDULES, schedules_of, needs=needs))
        if not page:
            return found
        found += page


def take_rules(reply: Reply) -> list[Rules]:
    return Rules.parse_many(reply.body)


def delete_many(session: Session[Any], jobs: Iterable[Job[Any] | int]) -> Plan[None]:
    """Deletes jobs. An error of one does not keep the others."""
    yield from each_of(session, b"delete", Word.DELETED, [job_id(job) for job in jobs])


def touch_many(session: Session[Any], jobs: Iterable[Job[Any] | int]) -> Plan[None]:
    """Touches jobs. An error of one does not keep the others."""
    yield from each_of(session, b"touch", Word.TOUCHED, [job_id(job) for job in jobs])


def each_of(session: Session[Any], verb: bytes, word: int, ids: Sequence[int]) -> Plan[None]:
    """Sends a command for each of some jobs, or one for many of them where the server knows that."""
    if not ids:
        return
    many = verb + b"-many"
    is_known = yield from has(session, many.decode())
    results: list[object] = []
    for start in range(0, len(ids), BATCH_COMMANDS):
        piece = ids[start : start + BATCH_COMMANDS]
        lines = list(extensions.id_lines(many, piece)) if is_known else []
        data = b"".join(line for line, _ in lines) if is_known else wire.with_ids(verb, list(piece))
        shipment = Shipment(data, len(lines) or len(piece))
        broken = yield shipment
        asked = [listed for _, listed in lines] if is_known else [[id] for id in piece]
        came = len(results)
        for listed, reply in zip(asked, shipment.replies, strict=False):
            results += outcomes(verb.decode(), listed, reply, word)
        if verb == b"delete":
            session.held.difference_update(id for id, each in zip(piece, results[came:], strict=False) if each is None)
        results += [broken] * (start + len(piece) - len(results))
        if broken is not None:
            break
    if any(each is not None for each in results):
        raise _failure(results, broken)


def outcomes(verb: str, ids: list[int], reply: Reply, word: int) -> list[BeanpoleError | None]:
    """What an answer says of each job that the command named; None: it was done.

    Raises UnexpectedReplyError for an answer to something else.
    """
    if reply.word != word:
        return [refusal_of(reply, About(f"{verb} {id}", verb, id)) for id in ids]
    absent = Counter(map(int, (reply.body or b"").split()))
    found: list[BeanpoleError | None] = []
    for id in reversed(ids):  # of a job that is named twice the first is done
        is_absent = absent[id] > 0
        absent[id] -= is_absent
        found.append(named(NotFoundError(), About(f"{verb} {id}", verb, id)) if is_absent else None)
    if absent.total():
        raise UnexpectedReplyError(f"the answer names jobs that the command did not: {reply!r}")
    return found[::-1]


def reserve_many_call(
    session: Session[B], count: int, timeout: float | None, group: str | None = None
) -> "Call[list[Job[B]]]":
    """Reserves up to `count` jobs: waits for the first, and takes what else is ready, perhaps of its group alone."""
    if count not in range(1, BATCH_COMMANDS + 1):
        raise ArgumentError(f"count must be from 1 to {BATCH_COMMANDS}, not {count!r}")
    wait = extensions.seconds(RESERVE_TIMEOUT_S_MAX if timeout is None else timeout, "timeout", RESERVE_TIMEOUT_S_MAX)
    same = extensions.optional(group, extensions.choice, ("same",), "group")
    data, needs = extensions.line(b"reserve-many", b"%d" % min(count, FRAMES_MAX), wait, group=same)
    return Call(
        data,
        Word.JOBS,
        lambda reply: taken(session, reply.frames, data),
        wait_s=timeout,
        needs=needs,
        instead=partial(reserve_each, session, count, timeout, data) if group is None else None,
    )


def wait_for_job_call(timeout: float | None) -> "Call[None]":
    """Waits until there is a job to reserve, and reserves none."""
    wait = extensions.seconds(RESERVE_TIMEOUT_S_MAX if timeout is None else timeout, "timeout", RESERVE_TIMEOUT_S_MAX)
    data, needs = extensions.line(b"reserve-many", b"0", wait)
    return Call(data, Word.JOBS, wait_s=timeout, needs=(*needs, "reserve-many.0"))


def reserve_each(session: Session[B], count: int, timeout: float | None, line: bytes) -> Plan[list[Job[B]]]:
    if timeout is not None and timeout % 1:
        raise UnsupportedError("reserve-many")
    left_s = None if timeout is None else int(timeout)
    while True:
        wait_s = 1 if (left_s is None or left_s > 1) and session.must_slice() else left_s
        replies = yield from exchange(wire.reserve(wait_s) + wire.reserve(0) * (count - 1), count, wait_s)
        if wait_s == left_s or any(each.word != Word.TIMED_OUT for each in replies):
            return taken(session, replies, line)
        left_s = None if left_s is None else left_s - 1


def taken(session: Session[B], replies: Sequence[Reply], line: bytes) -> list[Job[B]]:
    """The jobs that were reserved for a command. Raises the first refusal if there is none."""
    jobs: list[Job[B]] = []
    results: list[object] = []
    what = about(line, session.used, session.watching)
    for reply in replies:
        try:
            is_taken = reply.word in {Word.RESERVED, Word.JOB}
            results.append(session.reserved(reply) if is_taken else refusal_of(reply, what))
        except BodyError as error:
            results.append(error)
        if isinstance(results[-1], Job):
            jobs.append(results[-1])
    if any(not isinstance(each, Job | TimedOutError | DeadlineSoonError) for each in results):
        raise _failure(results, None)
    if not jobs and isinstance(results[0], BeanpoleError):
        raise results[0]
    return jobs


# --- Pipelines --------------------------------------------------------------------------------------------------------


Sent = tuple["Call[Any]", Result[Any], int, str]
"""A call, its result, how many replies it has, and the tube that was used for it."""


def run_queue(session: Session[Any], queue: Queue) -> Plan[None]:
    """Runs the calls of a queue in order and gives each result its value or error."""
    if any(call.needs for call, _ in queue):
        yield from ask(session)
    while queue:
        if session.missing(queue[0][0].needs) is not None:
            yield from run_alone(session, *queue.popleft())
            continue
        batch: list[Sent] = []
        parts: list[bytes] = []
        size, reply_count = 0, 0
        wait_s: float | None = 0
        while queue and size < BATCH_BYTES and len(batch) < BATCH_COMMANDS:
            if queue[0][0].needs and session.missing(queue[0][0].needs) is not None:
                break
            call, result = queue.popleft()
            data, count = session.encode(call)
            parts.append(data)
            batch.append((call, result, count, session.used))
            size += len(data)
            reply_count += count
            if call.wait_s != 0:
                wait_s = None if wait_s is None or call.wait_s is None else wait_s + call.wait_s
        shipment = Shipment(b"".join(parts), reply_count, wait_s)
        broken = yield shipment
        settle(session, batch, shipment.replies, broken)
        if broken is not None:
            raise broken


def run_alone(session: Session[Any], call: "Call[Any]", result: Result[Any]) -> Plan[None]:
    try:
        result.succeed((yield from run_call(session, call)))
    except BeanpoleError as error:
        result.fail(error)
        if isinstance(error, (ConnectionLostError, *ENDING)):
            raise


def settle(
    session: Session[Any],
    batch: "list[Sent]",
    replies: list[Reply],
    broken: BeanpoleError | None,
) -> None:
    """Gives each result its value or error.

    Raises UnexpectedReplyError when an answer belongs to no command, and TooManyTubesError when a tube was refused.
    """
    at, came = 0, len(replies)
    ending: BeanpoleError | None = None
    for call, result, count, used in batch:
        at += count
        try:
            session.check_prefixes(replies[at - count : at - 1], call.data, used)
            if at > came:
                assert broken is not None, "a reply is missing, and the connection is not broken"
                result.fail(broken)
            else:
                result.succeed(session.finish(call, replies[at - 1], used))
        except BeanpoleError as error:
            result.fail(error)
            if ending is None and isinstance(error, ENDING):
                ending = error
    if ending is not None:
        raise ending


def _failure(results: list[object], broken: BeanpoleError | None) -> BatchError:
    errors = [each for each in results if isinstance(each, BeanpoleError)]
    failure = BatchError(f"{len(errors)} of {len(results)} commands failed, the first with: {errors[0]}", results)
    failure.__cause__ = errors[0] if broken is None else broken
    return failure
