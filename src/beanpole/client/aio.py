"""The asyncio client: a thin skin around the pure parts; :mod:`~beanpole.client.aio_link` moves the bytes.

Tasks may share a client: their commands go out in the order of the calls and the answers come back in that order, so
calls at the same time are a pipeline by themselves. A reserve that waits makes all later calls of the same client wait
for its end, as the server reads no further: give a worker that waits a client of its own.

Between the encoding of a command and its sending nothing is awaited: the session knows what the connection uses. Both
are done by the task that has the turn of the link.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from beanpole.client import batch
from beanpole.client.aio_link import Link
from beanpole.client.base import BaseClient, Given, Options, TubeOptions, Tubes
from beanpole.client.commands import Awaiting
from beanpole.client.job import Job
from beanpole.client.pipeline import AsyncPipeline
from beanpole.client.plan import Plan, Queue, Shipment, run_call
from beanpole.client.recovery import waiting
from beanpole.client.session import CANCEL_RESERVE, ENDING, Using
from beanpole.errors import (
    ConnectionLostError,
    TimedOutError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from beanpole.client.codec import Codec
    from beanpole.protocol.wire import Call

B = TypeVar("B")
T = TypeVar("T")


class AsyncClient(BaseClient[B], Awaiting, Generic[B]):
    """The client for asyncio: takes the arguments of :class:`~beanpole.client.sync.Client` and has its methods.

    The commands are coroutines. Cancelling one that waits is safe: a job that a cancelled reserve gets after all is
    given back, and what another command did is done; the client can be used again at once. The used tube belongs to the
    client, not to a task: tasks that share a client name the tube in :meth:`put`.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "AsyncClient[str]",
            address: Given | None = ...,
            encoding: str = ...,
            use: str = ...,
            watch: Tubes = ...,
            **options: Unpack[Options],
        ) -> None: ...
        @overload
        def __init__(
            self: "AsyncClient[bytes]",
            address: Given | None,
            encoding: None,
            use: str = ...,
            watch: Tubes = ...,
            **options: Unpack[Options],
        ) -> None: ...
        @overload
        def __init__(
            self: "AsyncClient[bytes]", address: Given | None = ..., *, encoding: None, **options: Unpack[TubeOptions]
        ) -> None: ...
        @overload
        def __init__(self, address: Given | None = ..., *, codec: Codec[B], **options: Unpack[TubeOptions]) -> None: ...
        def __init__(self, address: Given | None = None, *args: object, **options: object) -> None: ...

    _link: Link | None = None
    _may_cancel = True

    @cached_property
    def _dialing(self) -> asyncio.Lock:
        """Held while connecting, so that tasks that share the client share the connection."""
        return asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; the server gives the reserved jobs to others. The next command makes a new one."""
        self._outage.forget()
        link, self._link = self._link, None
        last = b"" if link is None or link.is_over else self._session.goodbye()
        self._session.ended(on_purpose=True)
        if link is not None:
            await link.close(last)

    async def connect(self) -> None:
        """Connects now, unless connected already: finds a mistake in the address early.

        Raises CannotConnectError when every attempt has failed.
        """
        await self._patiently(self._connected)

    # --- More than one command ---

    @overload
    def using(self) -> Coroutine[Any, Any, str]: ...
    @overload
    def using(self, tube: str) -> Using: ...
    def using(self, tube: str | None = None) -> Coroutine[Any, Any, str] | Using:
        """The name of the used tube (``list-tube-used``), to be awaited; with an argument, a context manager.

        ``with client.using(tube):`` uses another tube for a while, without ``async``: it sends nothing by itself.
        Raises ArgumentError for an invalid tube name.
        """
        return self.tube_used() if tube is None else Using(self._session, tube)

    async def reserve_iter(self, timeout: int | None = None) -> AsyncIterator[Job[B]]:
        """Jobs as they arrive, each reserved; ends when none came for `timeout` seconds (None: never).

        Raises what :meth:`reserve` does, except TimedOutError.
        """
        while True:
            try:
                job = await self.reserve(timeout)
            except TimedOutError:
                if not self._outage.is_on:
                    return
                await self.watching()  # the server did not say that: waits until there is one
            else:
                yield job

    def pipeline(self, *, raise_errors: bool = True) -> AsyncPipeline[B]:
        """Collects commands in an async with block and sends them together at its end.

        Commands are called without await, and each returns a Result. Raises what :meth:`Client.pipeline` does.
        """
        return AsyncPipeline(self._session, self._send, raise_errors=raise_errors)

    # --- The connection ---

    async def _send(self, queue: Queue) -> None:
        if queue:
            waits = any(call.wait_s != 0 for call, _ in queue)
            await self._run_batch(batch.run_queue(self._session, queue), waits=waits)

    async def _run(self, call: "Call[T]") -> T:
        """Runs one command, and again where that may be done when the connection is lost."""
        begun_s = self._outage.clock() if call.wait_s or call.needs else 0.0
        try:
            return await self._once(call)
        except ConnectionLostError as error:
            failure = error
        return await self._run_again(call, failure, begun_s)

    async def _once(self, call: "Call[T]") -> T:
        link = self._link
        if call.needs:
            if call.data == CANCEL_RESERVE and link is not None and link.waiting is not None:
                return await self._cancel(link, call)
            return await self._run_batch(run_call(self._session, call), call, waits=call.wait_s != 0)
        if call.wait_s != 0:
            return await self._wait(call)
        return await self._exchange(await self._ready(call, waits=False), call)

    async def _wait(self, call: "Call[T]") -> T:
        """Runs a command that may wait at the server, second by second where nothing could end it."""
        while True:
            link = await self._ready(call, waits=True)
            piece = link.piece(call)
            try:
                return await self._exchange(link, piece)
            except TimedOutError:
                if piece is call:
                    raise
            call = waiting(self._session, call, None if call.wait_s is None else int(call.wait_s) - 1)

    async def _cancel(self, link: Link, call: "Call[T]") -> T:
        """Ends the reserve that another task waits for."""
        await link.known()
        if (missing := self._session.missing(call.needs)) is not None and not link.is_over:
            raise UnsupportedError(missing)
        replies = await link.end_waiting()
        if replies is None:
            return await self._run_batch(run_call(self._session, call), call)
        return self._session.finish(call, replies[-1])

    async def _ready(self, call: "Call[Any] | None", *, waits: bool) -> Link:
        """A connection on which it is this task's turn to send."""
        while True:
            link = self._link
            if link is None or link.is_over:
                link = await self._connected(call)
            await (link.take_quiet_turn() if waits else link.turn.acquire())
            if not link.is_over:
                return link
            link.turn.release()

    async def _exchange(self, link: Link, call: "Call[T]") -> T:
        """Sends a command and takes the answer. It is this task's turn."""
        try:
            data, count = self._session.encode(call)
        except BaseException:
            link.turn.release()
            raise
        used = self._session.used
        shipment = Shipment(data, count, call.wait_s)
        sent, replies = link.send(shipment), shipment.replies
        try:
            try:
                await link.wait(sent)
            except ConnectionLostError:  # perhaps as one of the commands in front was refused
                self._session.check_prefixes(replies[: count - 1], call.data, used)
                raise
            self._session.check_prefixes(replies[:-1], call.data, used)
            return self._session.finish(call, replies[-1], used)
        except ENDING as error:
            self._end(link, error)
            raise

    async def _run_batch(self, plan: Plan[T], call: "Call[T] | None" = None, *, waits: bool = False) -> T:
        """Runs a plan, which is that of one call, if there is one; `waits` says whether the server may wait."""
        ready = partial(self._ready, call, waits=waits)
        link = await (ready() if call is not None else self._patiently(ready))
        with link.batch(waits=waits):
            return await self._run_plan(link, plan)

    def _notice_end(self) -> None:
        link = self._link
        if link is not None and link.is_over:
            self._link = None
            self._session.ended()
            if link.error is not None:
                self._lost(link.error, worked=link.worked)

    async def _connected(self, call: "Call[Any] | None" = None) -> Link:
        """The connection; a new one if there is none, or it is over. `call` is what it is for, if it is one call."""
        async with self._dialing:
            self._notice_end()
            if self._link is None:
                self._link = await self._connect(call)
            return self._link

    _sleep = staticmethod(asyncio.sleep)

    async def _ship(self, link: Link, shipment: Shipment) -> None:
        await link.wait(link.send(shipment, in_batch=True))

    async def _dial(self) -> Link:
        loop, given, address = asyncio.get_running_loop(), self._usable_socket(), self._address

        def link() -> Link:
            return Link(self._session, self._timeout_s)

        async with asyncio.timeout(self._connect_timeout_s):
            if given is not None:
                return (await loop.create_connection(link, sock=given))[1]
            if address.path:
                return (await loop.create_unix_connection(link, address.path))[1]
            context = self._login.context() if address.tls else None
            return (await loop.create_connection(link, address.host, address.port, ssl=context))[1]
