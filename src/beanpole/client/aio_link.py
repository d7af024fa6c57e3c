"""A connection of the asyncio client: commands out, replies in.

Invariants:

- `_owed` has an entry for each exchange of which replies are still to come, in the order in which they will.
- An exchange whose task was cancelled stays there, so that its replies are not taken for those of the next one. A job
  that it reserves is given back: with its priority, so by asking for that first, where no command keeps it.
- What the server may wait with (a reserve) is sent when nothing else is owed, and nothing is sent behind it but the
  ``cancel-reserve`` that ends it: other calls wait for their turn. So the client can always end it, and no
  other call waits for it at the server.
- A batch goes on without waiting for its turn again: it has the turn to its end, or nothing that waits is sent before.
- While replies are owed that have a timeout, one timer watches for silence.
"""

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from beanpole.client import extensions
from beanpole.client.base import set_up
from beanpole.client.login import lost_by
from beanpole.client.plan import Shipment
from beanpole.client.recovery import waiting
from beanpole.client.session import CANCEL_RESERVE, ENDING, JOB, JOBS, LIST_EXTENSIONS, OK, RESERVED, Session
from beanpole.client.stats import StatsJob
from beanpole.errors import BeanpoleError, ConnectionLostError, NoReplyError, UnexpectedReplyError
from beanpole.protocol import wire
from beanpole.protocol.wire import Reply, ReplyReader

if TYPE_CHECKING:
    from beanpole.protocol.wire import Call

LAST_S = 1.0  # seconds that the last words of a client have to be sent


@dataclass(slots=True, eq=False)
class Exchange:
    """A shipment that was sent, and what becomes of it."""

    shipment: Shipment
    silence_s: float | None
    """Seconds that the server may be silent when this is the next to be answered; None: no limit."""
    done: "asyncio.Future[None]"
    can_end: bool = False
    """Whether it is one reserve, whose waiting the server may know to end."""
    is_ending: bool = False
    """Whether the server was asked for that."""
    abandoned: bool = False
    """Whether nobody waits for the replies any more."""
    in_batch: bool = False
    """Whether it is part of a batch that is under way, which gives the turn on itself."""
    then: Callable[[list[Reply]], None] | None = None
    """What the link itself does with the replies."""

    @property
    def waits(self) -> bool:
        """Whether the server may take its time: a reserve with a timeout, or without."""
        return self.shipment.wait_s != 0


class Link(asyncio.Protocol):
    """One connection: commands out, replies in."""

    def __init__(self, session: Session[Any], timeout_s: float | None) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = ReplyReader()
        self._owed: deque[Exchange] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at_s = 0.0
        self._closed = self._loop.create_future()
        self._quiet: asyncio.Future[None] | None = None
        """Done when nothing is owed; None: nobody waits for that."""
        self._asking: Exchange | None = None
        """The question what the server has, in front of the first command that waits."""
        self._batches = 0
        """Batches that are under way without having the turn: they may have more to send, so nothing that waits is."""
        self.turn = asyncio.Lock()
        """Taken by whoever sends, and by what waits at the server until it is answered."""
        self.waiting: Exchange | None = None
        """What waits at the server."""
        self.is_over = False
        """Whether nothing can be sent any more."""
        self.error: BeanpoleError | None = None
        """What ended it; None: it is not over, or this side has ended it on purpose."""
        self.worked = False
        """Whether something was answered."""

    # --- Called by the loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        set_up(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(lost_by(exc or "the server closed it"))
        if not self._closed.done():
            self._closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Hands replies to the exchanges that wait for them."""
        owed = self._owed
        self._heard_at_s = self._loop.time()
        try:
            self._reader.receive(data)
            while owed and self._reader.read_into(owed[0].shipment.replies, owed[0].shipment.count):
                self._check_no_more(len(owed) - 1)
                self._answer(owed.popleft())
            self._check_no_more(len(owed))
        except ENDING as error:
            self.fail(error)
        self._watch()

    # --- Called by the client ---

    async def take_quiet_turn(self) -> None:
        """Takes the turn, and waits until nothing is owed: then commands may be sent that may wait at the server.

        A connection that is over by then raises nothing here. What takes the turn sends, or gives the turn on.
        """
        await self.turn.acquire()
        try:
            while self._owed or self._batches:
                self._quiet = self._loop.create_future()
                await self._quiet
        except BaseException:
            self.turn.release()
            raise

    @contextmanager
    def batch(self, *, waits: bool) -> Iterator[None]:
        """Within it, several exchanges are one. It begins with the turn.

        One that may wait at the server keeps the turn to its end. Others give it on at once; what waits is sent when
        they are over, for they could not go on behind it.
        """
        if not waits:
            self._batches += 1
            self.turn.release()
        try:
            yield
        finally:
            if not waits:
                self._batches -= 1
                self._settle()
            elif self.waiting is None:
                self.turn.release()
            else:  # it was cancelled: the turn is given on when the server has ended that
                self.waiting.in_batch = False

    def send(self, shipment: Shipment, *, in_batch: bool = False) -> Exchange:
        """Sends commands; their replies will be in the shipment when the exchange is done.

        Gives the turn on: at once, or when the exchange is done if the server may wait; but not within a batch.
        """
        if self.is_over:
            if not in_batch:
                self.turn.release()
            raise ConnectionLostError("the connection is closed", outcome_unknown=False)
        asks = shipment.wait_s != 0 and self._session.features is None and self._asking is None
        exchange = self._write(shipment, asks=asks)
        exchange.in_batch = in_batch
        if exchange.waits:
            self.waiting = exchange
        elif not in_batch:
            self.turn.release()
        return exchange

    async def wait(self, exchange: Exchange) -> None:
        """Waits for the replies of an exchange; those that came are in its shipment, whatever happens.

        Raises ConnectionLostError or UnexpectedReplyError. When it is cancelled, no reserved job is lost.
        """
        try:
            await exchange.done
        except asyncio.CancelledError:
            self._abandon(exchange)
            raise

    def piece(self, call: "Call[Any]") -> "Call[Any]":
        """A call that may wait, or a second of it.

        A client that holds jobs can't close the connection when the call is cancelled, and where the server can't end
        a reserve either, other calls would have to wait until it is over.
        """
        is_long = call.wait_s is None or call.wait_s > 1
        if is_long and self._session.must_slice() and call.data.startswith(b"reserve"):
            return waiting(self._session, call, 1)
        return call

    async def end_waiting(self) -> list[Reply] | None:
        """Has the server end the reserve that waits, and returns what it says to that; None: nothing waits any more.

        The server must be known to be able to do so; but it may be asked that just now: see :meth:`known`.
        """
        exchange = self.waiting
        if exchange is None or exchange.is_ending or not exchange.can_end:
            return None
        ending = self._end(exchange)
        await self.wait(ending)
        return ending.shipment.replies

    async def known(self) -> None:
        """Waits until the server has said what it has, if it was asked that in front of what waits."""
        if self._asking is not None:
            await asyncio.wait({self._asking.done})

    def fail(self, error: BeanpoleError, *, on_purpose: bool = False, last: bytes = b"") -> None:
        """Ends the connection, and everything that is owed with an error; `last` is what is said before."""
        if not self.is_over and not on_purpose:
            self.error = error
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and last:
            self._transport.write(last)
            self._transport.close()  # when that is sent
        elif self._transport is not None:
            self._transport.abort()
        while self._owed:
            exchange = self._owed.popleft()
            if exchange.then is not None or exchange.abandoned:
                exchange.done.cancel()
            elif not exchange.done.done():
                exchange.done.set_exception(copy.copy(error))  # each task names its own call in it
        self._settle()
        if self.waiting is not None:
            self._end_wait(self.waiting)

    async def close(self, last: bytes = b"") -> None:
        self.fail(ConnectionLostError("the client was closed"), on_purpose=True, last=last)
        await asyncio.wait({self._closed}, timeout=LAST_S if last else None)
        if not self._closed.done() and self._transport is not None:
            self._transport.abort()  # the server does not read
            await self.wait_closed()

    async def wait_closed(self) -> None:
        await asyncio.wait({self._closed})

    # --- Inside ---

    def _write(self, shipment: Shipment, *, asks: bool = False) -> Exchange:
        """Sends commands, whoever has the turn; with `asks` behind the question what the server has."""
        assert self._transport is not None, "the link is used before it is connected"
        data, wait_s = shipment.data, shipment.wait_s
        silence_s = None if self._timeout_s is None or wait_s is None else self._timeout_s + wait_s
        exchange = Exchange(shipment, silence_s, self._loop.create_future())
        naming = data.startswith(b"name-session ")  # goes in front of another command, and does not wait
        command = data[data.index(b"\n") + 1 :] if naming else data
        exchange.can_end = exchange.waits and shipment.count == 1 + naming and command.startswith(b"reserve")
        is_next = not self._owed
        if asks:
            self._session.asks = True
            question = Shipment(LIST_EXTENSIONS, 1)
            self._asking = Exchange(question, self._timeout_s, self._loop.create_future(), then=self._listed)
            self._owed.append(self._asking)
            data = question.data + data
        self._owed.append(exchange)
        self._transport.write(data)
        if is_next:
            self._heard_at_s = self._loop.time()
            self._watch()
        return exchange

    def _listed(self, replies: list[Reply]) -> None:
        """What the server has is known now. Raises UnexpectedReplyError if it is no answer to that."""
        self._session.listed(replies[0], self._session.connection)

    def _end_wait(self, exchange: Exchange) -> None:
        self.waiting = None
        if not exchange.in_batch:
            self.turn.release()

    def _settle(self) -> None:
        """Wakes the task that waits until nothing is owed."""
        if not self._owed and self._quiet is not None:
            if not self._quiet.done():
                self._quiet.set_result(None)
            self._quiet = None

    def _check_no_more(self, owed_count: int) -> None:
        """Raises if something came that nobody asked for."""
        if owed_count == 0 and self._reader.buffered_bytes:
            raise UnexpectedReplyError("the server sent more than was asked for")

    def _answer(self, exchange: Exchange) -> None:
        self.worked = True
        shipment = exchange.shipment
        for reply in shipment.replies:
            if reply.word == RESERVED:
                self._session.held.add(reply.number)
            elif reply.word == JOBS and shipment.reserves:
                self._session.held.update(frame.number for frame in reply.frames)
        if exchange.then is not None:
            exchange.then(shipment.replies)
        elif exchange.abandoned:
            self._give_back(exchange)
        if not exchange.done.done():
            exchange.done.set_result(None)
        if exchange is self.waiting:
            self._end_wait(exchange)
        elif self.waiting is not None and self.waiting.abandoned:
            self._end_abandoned(self.waiting)
        self._settle()

    def _abandon(self, exchange: Exchange) -> None:
        exchange.abandoned = True
        if exchange.done.done() and not exchange.done.cancelled():
            exchange.done.exception()  # has been seen
        if exchange not in self._owed:
            self._give_back(exchange)
        elif exchange.waits:
            self._end_abandoned(exchange)

    def _end_abandoned(self, exchange: Exchange) -> None:
        """Ends what waits at the server, and nobody waits for, as soon as it is known how.

        A reserve ends with ``cancel-reserve``, where the server has that. Elsewhere, if the client holds no job, the
        connection is closed, and a job that is on its way stays with the server. Otherwise the replies are awaited,
        which takes a second: see :meth:`piece`.
        """
        if exchange.is_ending or (self._asking is not None and self._asking in self._owed):
            return
        if exchange.can_end and self._session.missing(("cancel-reserve",)) is None:
            ending = self._end(exchange)
            ending.abandoned = ending.done.cancel()
        elif not self._session.held:
            self.fail(ConnectionLostError("a reserve was cancelled"), on_purpose=True)

    def _end(self, exchange: Exchange) -> Exchange:
        exchange.is_ending = True
        ending = self._write(Shipment(CANCEL_RESERVE, 1))
        exchange.silence_s = self._timeout_s  # it waits no more
        self._heard_at_s = self._loop.time()
        self._watch()
        return ending

    def _give_back(self, exchange: Exchange) -> None:
        """Gives the jobs back that an abandoned exchange has reserved: at once, so before anything else is sent."""
        ids: list[int] = []
        for reply in exchange.shipment.replies:
            taken = reply.frames if reply.word == JOBS and exchange.shipment.reserves else [reply]
            ids += [each.number for each in taken if each.word in {RESERVED, JOB}]
        if not ids or self.is_over:
            self._session.forget(ids)
            return
        if self._session.missing(("snooze-job",)) is None:  # is no failed attempt, and keeps the priority
            self._return(ids, b"".join(extensions.line(b"snooze-job", b"%d" % id, b"0")[0] for id in ids))
        else:
            asking = self._write(Shipment(wire.with_ids(b"stats-job", ids), len(ids)))
            asking.then = lambda replies: self._release(ids, replies)

    def _release(self, ids: list[int], replies: Iterable[Reply]) -> None:
        """Releases jobs with the priorities that they have; one that is not there is not held any more."""
        kept = [StatsJob.parse(each.body) for each in replies if each.word == OK]
        self._session.held.difference_update(set(ids) - {each.id for each in kept})
        if kept:
            data = b"".join(wire.command(b"release", each.id, each.pri, 0) for each in kept)
            self._return([each.id for each in kept], data)

    def _return(self, ids: list[int], data: bytes) -> None:
        """Sends what gives jobs back. Whatever the server answers, its time limit ends what is left."""
        giving = self._write(Shipment(data, len(ids)))
        giving.then = lambda _: self._session.held.difference_update(ids)

    def _watch(self) -> None:
        """Sets the timer for the silence that is allowed now, unless it fires sooner than that anyway."""
        silence_s = self._owed[0].silence_s if self._owed else None
        if silence_s is None:
            return
        silent_at_s = self._heard_at_s + silence_s
        if self._timer is not None:
            if self._timer.when() <= silent_at_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(silent_at_s, self._silent)

    def _silent(self) -> None:
        """The timer: what is owed now may be late, or was not owed yet when the timer was set."""
        self._timer = None
        if self._owed:
            silence_s = self._owed[0].silence_s
            if silence_s is not None and self._heard_at_s + silence_s <= self._loop.time():
                self.fail(NoReplyError(f"no answer within {silence_s} s"))
        self._watch()
