"""The asyncio client: a thin skin around the pure parts; :mod:`~beanpole.client.aio_link` moves the bytes.

Tasks may share a client: their commands go out in the order of the calls and the answers come back in that order, so
calls at the same time are a pipeline by themselves. A reserve that waits makes all later calls of the same client wait
too, as the server reads no further: give a worker that waits a client of its own.

Between the encoding of a command and its sending nothing is awaited: the session knows what the connection uses.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from beanpole.client import batch
from beanpole.client.aio_link import Link
from beanpole.client.base import BaseClient, Given, Options, Tubes
from beanpole.client.commands import Awaiting
from beanpole.client.errors import CannotConnectError, ConnectionLostError, TimedOutError
from beanpole.client.job import Job
from beanpole.client.pipeline import AsyncPipeline
from beanpole.client.plan import Broken, Plan, run_call
from beanpole.client.result import Queue
from beanpole.client.session import Using, check_prefix
from beanpole.errors import UnexpectedReplyError

if TYPE_CHECKING:
    from beanpole.client.address import Address
    from beanpole.client.codec import Codec
    from beanpole.protocol.wire import Call, Reply

B = TypeVar("B")
T = TypeVar("T")


class AsyncClient(BaseClient[B], Awaiting, Generic[B]):
    """The client for asyncio: takes the arguments of :class:`~beanpole.client.sync.Client` and has its methods.

    The commands are coroutines. Cancelling one that waits is safe: a job that a cancelled reserve gets after all is
    given back, and what another command did is done. The used tube belongs to the client, not to a task: tasks that
    share a client name the tube in :meth:`put`.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "AsyncClient[str]",
            address: Given,
            encoding: str = ...,
            use: str = ...,
            watch: Tubes = ...,
            **options: Unpack[Options],
        ) -> None: ...
        @overload
        def __init__(
            self: "AsyncClient[bytes]",
            address: Given,
            encoding: None,
            use: str = ...,
            watch: Tubes = ...,
            **options: Unpack[Options],
        ) -> None: ...
        @overload
        def __init__(
            self, address: Given, *, use: str = ..., watch: Tubes = ..., codec: Codec[B], **options: Unpack[Options]
        ) -> None: ...
        def __init__(self, address: Given, *args: object, **options: object) -> None: ...

    _link: Link | None = None

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
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def connect(self) -> None:
        """Connects now, unless connected already: finds a mistake in the address early.

        Raises CannotConnectError when every attempt has failed.
        """
        await self._connected()

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
                return
            yield job

    def pipeline(self, *, raise_errors: bool = True) -> AsyncPipeline[B]:
        """Collects commands in an async with block and sends them together at its end.

        Commands are called without await, and each returns a Result. Raises what :meth:`Client.pipeline` does.
        """
        return AsyncPipeline(self._session, self._send, raise_errors=raise_errors)

    # --- The connection ---

    async def _send(self, queue: Queue) -> None:
        if queue:
            await self._run_batch(batch.run_queue(self._session, queue))

    async def _run(self, call: "Call[T]") -> T:
        """Runs one command, repeatedly if that is wanted."""
        if call.needs:
            return await self._run_batch(run_call(self._session, call))
        for _ in range(self._repetitions):
            try:
                return await self._once(call)
            except CannotConnectError:
                raise
            except ConnectionLostError:
                continue
        return await self._once(call)

    async def _once(self, call: "Call[T]") -> T:
        link = self._link
        if link is None or link.is_over:
            link = await self._connected()
        data, count = self._session.encode(call)
        replies: list[Reply] = []
        await link.exchange(data, count, call.wait_s, replies)
        try:
            for reply in replies[:-1]:
                check_prefix(reply)
            return self._session.finish(call, replies[-1])
        except UnexpectedReplyError as error:
            link.fail(error)
            raise

    async def _run_batch(self, plan: Plan[T]) -> T:
        """Runs a batch, which is never repeated: its results say what is known of each command."""
        link = await self._connected()
        try:
            shipment = next(plan)
            while True:
                try:
                    await link.ship(shipment)
                except Broken as error:
                    shipment = plan.send(error)
                else:
                    shipment = plan.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        except UnexpectedReplyError as error:
            link.fail(error)
            raise

    async def _connected(self) -> Link:
        """The connection; a new one if there is none, or it is over."""
        async with self._dialing:
            if self._link is not None and self._link.is_over:
                self._link = None
                self._lost()
            if self._link is None:
                self._link = await self._dial_until_connected()
            return self._link

    async def _dial_until_connected(self) -> Link:
        pauses = self._backoff.pauses()
        while True:
            failures: list[tuple[Address, OSError]] = []
            for _ in range(len(self._addresses)):
                try:
                    return await self._dial()
                except OSError as error:
                    failures.append((self._address, error))
                    self._lost()
            pause_s = next(pauses, None)
            if pause_s is None:
                raise self._cannot_connect(failures) from failures[-1][1]
            await asyncio.sleep(pause_s)

    async def _dial(self) -> Link:
        """One attempt to connect, and to restore the used tube and the watch list."""
        self._address = address = self._addresses.current
        loop, given = asyncio.get_running_loop(), self._usable_socket()

        def link() -> Link:
            return Link(self._session, self._timeout_s)

        async with asyncio.timeout(self._connect_timeout_s):
            if given is not None:
                _, made = await loop.create_connection(link, sock=given)
            elif address.path:
                _, made = await loop.create_unix_connection(link, address.path)
            else:
                _, made = await loop.create_connection(link, address.host, address.port)
        try:
            commands = self._greeting()
            if commands:
                replies: list[Reply] = []
                await made.exchange(b"".join(commands), len(commands), 0, replies)
                self._session.greeted(commands, replies)
        except BaseException as error:
            made.fail(ConnectionLostError(f"the connection was not set up: {error}"))
            raise
        return made
