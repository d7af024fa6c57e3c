"""Batches: many commands a round trip. No I/O.

A plan is a generator that yields a :class:`Shipment`; whoever drives it sends the data, fills in the replies and
resumes it with None, or with what broke the connection. Its return value is that of the batch. A shipment is encoded
when it is asked for, so nothing may be awaited between that and sending it.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

from beanpole.client import limits
from beanpole.client.errors import BatchError, BodyError, ConnectionLostError, DeadlineSoonError, TimedOutError
from beanpole.client.job import Job, job_id
from beanpole.client.result import Queue, Result
from beanpole.client.session import INSERTED, USED, Session, check_prefix, error_of
from beanpole.errors import ArgumentError, BeanpoleError, UnexpectedReplyError
from beanpole.protocol import wire
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call, Reply

B = TypeVar("B")
T = TypeVar("T")

PUT_LINE_BYTES = 40
"""About the bytes of a put besides its body, to cut batches by size."""


class Shipment:
    """Commands that go together, and the replies that came."""

    __slots__ = ("count", "data", "replies", "wait_s")

    def __init__(self, data: bytes, count: int, wait_s: int | None = 0) -> None:
        self.data = data
        self.count = count
        """How many replies there will be."""
        self.wait_s = wait_s
        """Seconds that the server may wait before it replies; None: no limit."""
        self.replies: list[Reply] = []


Plan = Generator[Shipment, "ConnectionLostError | UnexpectedReplyError | None", T]
Broken = (ConnectionLostError, UnexpectedReplyError)
"""The errors after which the connection can't be used any more; a plan is resumed with one of them."""


def pieces(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lists of bodies that go in one shipment each."""
    piece: list[bytes] = []
    size = 0
    for body in bodies:
        piece.append(body)
        size += len(body) + PUT_LINE_BYTES
        if size >= limits.BATCH_BYTES or len(piece) >= limits.BATCH_COMMANDS:
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
        shipment = Shipment(prefix + data, len(piece) + bool(prefix))
        broken = yield shipment
        replies = shipment.replies
        if prefix and replies:
            check_prefix(replies.pop(0))
        ids += [reply.number for reply in replies if reply.word == INSERTED]
        if broken is not None or any(reply.word != INSERTED for reply in replies):
            done: list[object] = [*ids[: len(ids) - sum(reply.word == INSERTED for reply in replies)]]
            done += [reply.number if reply.word == INSERTED else error_of(reply) for reply in replies]
            done += [broken] * (len(piece) - len(replies))
            raise _failure(done, broken)
    return ids


def delete_many(session: Session[Any], jobs: Iterable[Job[Any] | int]) -> Plan[None]:
    """Deletes jobs. An error of one does not keep the others."""
    results: list[object] = []
    ids = [job_id(job) for job in jobs]
    for start in range(0, len(ids), limits.BATCH_COMMANDS):
        piece = ids[start : start + limits.BATCH_COMMANDS]
        shipment = Shipment(wire.with_ids(b"delete", piece), len(piece))
        broken = yield shipment
        for id, reply in zip(piece, shipment.replies, strict=False):
            if reply.word == Word.DELETED:
                session.held.discard(id)
                results.append(None)
            else:
                results.append(error_of(reply))
        results += [broken] * (len(piece) - len(shipment.replies))
        if broken is not None:
            break
    if any(each is not None for each in results):
        raise _failure(results, broken)


def reserve_many(session: Session[B], count: int, timeout: int | None) -> Plan[list[Job[B]]]:
    """Reserves up to `count` jobs: waits for the first, and takes what else is ready."""
    if count not in range(1, limits.BATCH_COMMANDS + 1):
        raise ArgumentError(f"count must be from 1 to {limits.BATCH_COMMANDS}, not {count!r}")
    data = wire.reserve(timeout) + wire.reserve(0) * (count - 1)
    shipment = Shipment(data, count, timeout)
    broken = yield shipment
    if broken is not None:
        raise broken
    jobs: list[Job[B]] = []
    results: list[object] = []
    for reply in shipment.replies:
        try:
            results.append(session.reserved(reply) if reply.word == Word.RESERVED else error_of(reply))
        except BodyError as error:
            results.append(error)
        if isinstance(results[-1], Job):
            jobs.append(results[-1])
    if any(not isinstance(each, Job | TimedOutError | DeadlineSoonError) for each in results):
        raise _failure(results, None)
    if not jobs and isinstance(results[0], BeanpoleError):
        raise results[0]
    return jobs


def run_queue(session: Session[Any], queue: Queue) -> Plan[None]:
    """Runs the calls of a queue in order and gives each result its value or error."""
    while queue:
        batch: list[tuple[Call[Any], Result[Any], int]] = []
        parts: list[bytes] = []
        size, reply_count = 0, 0
        wait_s: int | None = 0
        while queue and size < limits.BATCH_BYTES and len(batch) < limits.BATCH_COMMANDS:
            call, result = queue.popleft()
            data, count = session.encode(call)
            parts.append(data)
            batch.append((call, result, count))
            size += len(data)
            reply_count += count
            if call.wait_s != 0:
                wait_s = None if wait_s is None or call.wait_s is None else wait_s + call.wait_s
        shipment = Shipment(b"".join(parts), reply_count, wait_s)
        broken = yield shipment
        settle(session, batch, shipment.replies, broken)
        if broken is not None:
            raise broken


def settle(
    session: Session[Any],
    batch: "list[tuple[Call[Any], Result[Any], int]]",
    replies: list[Reply],
    broken: BeanpoleError | None,
) -> None:
    """Gives each result its value or error. Raises UnexpectedReplyError when an answer belongs to no command."""
    at, came = 0, len(replies)
    unexpected: UnexpectedReplyError | None = None
    for call, result, count in batch:
        at += count
        if at > came:
            assert broken is not None, "a reply is missing, and the connection is not broken"
            result.fail(broken)
            continue
        try:
            if count > 1:
                check_prefix(replies[at - count])
            result.succeed(session.finish(call, replies[at - 1]))
        except BeanpoleError as error:
            result.fail(error)
            if unexpected is None and isinstance(error, UnexpectedReplyError):
                unexpected = error
    if unexpected is not None:
        raise unexpected


def _failure(results: list[object], broken: BeanpoleError | None) -> BatchError:
    """The error of a batch, caused by the first error in it."""
    errors = [each for each in results if isinstance(each, BeanpoleError)]
    failure = BatchError(f"{len(errors)} of {len(results)} commands failed, the first with: {errors[0]}", results)
    failure.__cause__ = errors[0] if broken is None else broken
    return failure
