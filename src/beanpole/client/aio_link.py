"""A connection of the asyncio client: commands out, replies in.

Invariants:

- `_owed` has an entry for each exchange of which replies are still to come, in the order in which they will.
- An exchange whose task was cancelled stays there, so that its replies are not taken for those of the next one. A job
  that it reserves is given back: with its priority, so by asking for that first.
- While replies are owed that have a timeout, one timer watches for silence.
"""

import asyncio
from collections import deque
from typing import Any, cast

from beanpole.client import extensions
from beanpole.client.errors import ConnectionLostError, NoReplyError
from beanpole.client.plan import Shipment
from beanpole.client.session import JOB, JOBS, RESERVED, Session
from beanpole.client.stats import StatsJob
from beanpole.errors import BeanpoleError, UnexpectedReplyError
from beanpole.protocol import wire
from beanpole.protocol.wire import Reply, ReplyReader

CANCEL_RESERVE = b"cancel-reserve\r\n"


class Exchange:
    """Commands that were sent, and the replies to them so far."""

    __slots__ = ("abandoned", "can_end", "count", "done", "replies", "reserves", "silence_s", "waits")

    def __init__(
        self, count: int, silence_s: float | None, replies: list[Reply], done: "asyncio.Future[None]", *, waits: bool
    ) -> None:
        self.count = count
        self.silence_s = silence_s
        """Seconds that the server may be silent when this is the next to be answered; None: no limit."""
        self.replies = replies
        self.done = done
        self.waits = waits
        """Whether the server may take its time: a reserve with a timeout, or without."""
        self.can_end = False
        """Whether it is one reserve, whose waiting the server may know to end."""
        self.reserves = False
        """Whether the jobs of a JOBS among the replies are reserved by this."""
        self.abandoned = False
        """Whether nobody waits for the replies any more."""


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
        self._giving_back: set[asyncio.Task[None]] = set()
        self._closed = self._loop.create_future()
        self.is_over = False
        """Whether nothing can be sent any more."""

    # --- Called by the loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends: nothing more will come."""
        self.fail(ConnectionLostError(f"the connection broke: {exc or 'the server closed it'}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Hands replies to the exchanges that wait for them."""
        owed = self._owed
        self._heard_at_s = self._loop.time()
        try:
            self._reader.receive(data)
            while owed and self._reader.read_into(owed[0].replies, owed[0].count):
                self._check_no_more(len(owed) - 1)
                self._answer(owed.popleft())
            self._check_no_more(len(owed))
        except UnexpectedReplyError as error:
            self.fail(error)
        self._watch()

    # --- Called by the client ---

    def send(self, data: bytes, count: int, wait_s: float | None, replies: list[Reply]) -> Exchange:
        """Sends commands that have `count` replies, which will be in the list when the exchange is done."""
        assert self._transport is not None, "the link is used before it is connected"
        silence_s = None if self._timeout_s is None or wait_s is None else self._timeout_s + wait_s
        exchange = Exchange(count, silence_s, replies, self._loop.create_future(), waits=wait_s != 0)
        naming = data.startswith(b"name-session ")  # goes in front of another command, and does not wait
        command = data[data.index(b"\n") + 1 :] if naming else data
        exchange.can_end = exchange.waits and count == 1 + naming and command.startswith(b"reserve")
        if self.is_over:
            raise ConnectionLostError("the connection is closed", outcome_unknown=False)
        is_next = not self._owed
        self._owed.append(exchange)
        self._transport.write(data)
        if is_next:
            self._heard_at_s = self._loop.time()
            self._watch()
        return exchange

    async def exchange(self, data: bytes, count: int, wait_s: float | None, replies: list[Reply]) -> None:
        """Sends commands and waits for their replies; those that came are in the list, whatever happens.

        Raises ConnectionLostError or UnexpectedReplyError. When it is cancelled, no reserved job is lost.
        """
        await self._wait(self.send(data, count, wait_s, replies))

    async def ship(self, shipment: Shipment) -> None:
        """Does the same for the commands of a batch."""
        exchange = self.send(shipment.data, shipment.count, shipment.wait_s, shipment.replies)
        exchange.reserves = shipment.reserves
        await self._wait(exchange)

    def fail(self, error: BeanpoleError) -> None:
        """Ends the connection, and everything that is owed with an error."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        while self._owed:
            exchange = self._owed.popleft()
            if not exchange.done.done():
                exchange.done.set_exception(error)

    async def close(self) -> None:
        """Closes the connection and waits until it is."""
        self.fail(ConnectionLostError("the client was closed"))
        await self._closed

    # --- Inside ---

    async def _wait(self, exchange: Exchange) -> None:
        try:
            await exchange.done
        except asyncio.CancelledError:
            self._abandon(exchange)
            raise

    def _check_no_more(self, owed_count: int) -> None:
        """Raises if something came that nobody asked for."""
        if owed_count == 0 and self._reader.buffered_bytes:
            raise UnexpectedReplyError("the server sent more than was asked for")

    def _answer(self, exchange: Exchange) -> None:
        """All replies of an exchange are there."""
        for reply in exchange.replies:
            if reply.word == RESERVED:
                self._session.held.add(reply.number)
            elif reply.word == JOBS and exchange.reserves:
                self._session.held.update(frame.number for frame in reply.frames)
        if exchange.abandoned:
            self._give_back(exchange)
        elif not exchange.done.done():
            exchange.done.set_result(None)

    def _abandon(self, exchange: Exchange) -> None:
        """Nobody is interested in the replies any more.

        A reserve that may still wait for long ends with ``cancel-reserve``, if the server has listed that and nothing
        was sent behind it. Else, if the client holds no job, the connection is closed: that ends the wait at once too,
        and a job that is on its way stays with the server. Otherwise the replies are awaited.
        """
        exchange.abandoned = True
        if exchange.done.done() and not exchange.done.cancelled():
            exchange.done.exception()  # has been seen
        if exchange not in self._owed:
            self._give_back(exchange)
        elif self._can_end(exchange):
            ending = self.send(CANCEL_RESERVE, 1, 0, [])
            ending.abandoned = ending.done.cancel()
            exchange.silence_s = self._timeout_s  # it waits no more
            self._heard_at_s = self._loop.time()
            self._watch()
        elif exchange.waits and not self._session.held and all(each.abandoned for each in self._owed):
            self.fail(ConnectionLostError("a reserve was cancelled"))

    def _can_end(self, exchange: Exchange) -> bool:
        """Whether it is a reserve whose waiting the server can end: that must be the last that was sent."""
        known = self._session.missing(("cancel-reserve",)) is None
        return known and exchange.can_end and exchange is self._owed[-1] and not self.is_over

    def _give_back(self, exchange: Exchange) -> None:
        """Releases the jobs that an abandoned exchange has reserved."""
        for reply in exchange.replies:
            taken = reply.frames if reply.word == JOBS and exchange.reserves else [reply]
            for each in taken:
                if each.word in {RESERVED, JOB}:
                    task = self._loop.create_task(self._release(each.number))
                    self._giving_back.add(task)
                    task.add_done_callback(self._giving_back.discard)

    async def _release(self, id: int) -> None:
        """Releases a job with the priority that it had. If that fails, the connection ends, which releases it too."""
        try:
            replies: list[Reply] = []
            await self.exchange(wire.command(b"stats-job", id), 1, 0, replies)
            pri = StatsJob.parse(replies[0].body).pri
            await self.exchange(self._giving(id, pri), 1, 0, [])
            self._session.held.discard(id)
        except (BeanpoleError, TypeError, AttributeError) as error:
            self.fail(ConnectionLostError(f"job {id} could not be given back: {error}"))

    def _giving(self, id: int, pri: int) -> bytes:
        """The command that gives a job back: one that does not count as a failure, where there is one."""
        if self._session.missing(("snooze-job", "snooze-job.pri")) is None:
            return extensions.line(b"snooze-job", b"%d" % id, b"0", pri=b"%d" % pri)[0]
        return wire.command(b"release", id, pri, 0)

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
