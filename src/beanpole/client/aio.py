"""The asyncio client: a thin skin around the pure parts; :mod:`~beanpole.client.aio_link` moves the bytes.

Tasks may share a client: their commands go out in the order of the calls and the answers come back in that order, so
calls at the same time are a pipeline by themselves. A reserve that waits makes all later calls of the same client wait
too, as the server reads no further: give a worker that waits a client of its own.

Between the encoding of a command and its sending nothing is awaited: the session knows what the connection uses.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from beanpole.client import batch, limits
from beanpole.client.address import Address
from beanpole.client.aio_link import Link
from beanpole.client.backoff import Backoff
from beanpole.client.codec import Codec
from beanpole.client.commands import Awaiting, Commands
from beanpole.client.errors import CannotConnectError, ConnectionLostError, TimedOutError
from beanpole.client.job import Job
from beanpole.client.pipeline import AsyncPipeline, Queue
from beanpole.client.session import DEFAULT_TUBE, USED, Using, check_prefix
from beanpole.client.settings import Given, Options, Settings
from beanpole.errors import UnexpectedReplyError

if TYPE_CHECKING:
    from beanpole.protocol.wire import Call, Reply

B = TypeVar("B")
T = TypeVar("T")


class AsyncClient(Commands[B], Awaiting, Generic[B]):
    """The client for asyncio: takes the arguments of :class:`~beanpole.client.sync.Client` and has its methods.

    The commands are coroutines. Cancelling one that waits is safe: a job that a cancelled reserve gets after all is
    given back, and what another command did is done. The used tube belongs to the client, not to a task: tasks that
    share a client name the tube in :meth:`put`.
    """

    @overload
    def __init__(
        self: "AsyncClient[str]",
        address: Given,
        encoding: str = "utf-8",
        use: str = DEFAULT_TUBE,
        watch: str | Iterable[str] = DEFAULT_TUBE,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: "AsyncClient[bytes]",
        address: Given,
        encoding: None,
        use: str = DEFAULT_TUBE,
        watch: str | Iterable[str] = DEFAULT_TUBE,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self,
        address: Given,
        *,
        use: str = DEFAULT_TUBE,
        watch: str | Iterable[str] = DEFAULT_TUBE,
        codec: Codec[B],
        **options: Unpack[Options],
    ) -> None: ...
    def __init__(
        self,
        address: Given,
        encoding: str | None = "utf-8",
        use: str = DEFAULT_TUBE,
        watch: str | Iterable[str] = DEFAULT_TUBE,
        *,
        codec: Codec[B] | None = None,
        timeout: float | None = limits.TIMEOUT_MS / 1000,
        connect_timeout: float | None = limits.CONNECT_TIMEOUT_MS / 1000,
        backoff: Backoff | None = None,
        repeat: bool = False,
    ) -> None:
        options: Options = {
            "timeout": timeout,
            "connect_timeout": connect_timeout,
            "backoff": backoff,
            "repeat": repeat,
        }
        self._settings = Settings(address, encoding, use, watch, codec=codec, **options)
        self._session = self._settings.session()
        self._link: Link | None = None
        self._dialing = asyncio.Lock()

    @classmethod
    def from_url(cls, url: str, **kwargs: Any) -> Self:  # noqa: ANN401 - what the constructor takes
        """A client of the server at ``beanstalk://host:port`` or ``unix:path``; the rest is the constructor's.

        Raises ArgumentError for a URL that is none.
        """
        return cls(Address.from_url(url), **kwargs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._settings.name}>"

    async def close(self) -> None:
        """Closes the connection; the server gives the reserved jobs to others. The next command makes a new one."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def connect(self) -> None:
        """Connects now, unless there is a connection: to find a mistake in the address early.

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
        Raises ArgumentError for what is no name of a tube.
        """
        return self.tube_used() if tube is None else Using(self._session, tube)

    async def reserve_iter(self, timeout: int | None = None) -> AsyncIterator[Job[B]]:
        """Jobs as they come, each reserved; ends when none came for `timeout` seconds (None: never).

        Raises what :meth:`reserve` does, but TimedOutError.
        """
        while True:
            try:
                job = await self.reserve(timeout)
            except TimedOutError:
                return
            yield job

    async def reserve_many(self, count: int, timeout: int | None = None) -> list[Job[B]]:
        """Does what :meth:`Client.reserve_many` does."""
        return await self._drive(batch.reserve_many(self._session, count, timeout))

    async def put_many(
        self,
        bodies: Iterable[B],
        priority: int = limits.PRI_DEFAULT,
        delay: int = 0,
        ttr: int = limits.TTR_S_DEFAULT,
        *,
        tube: str = USED,
    ) -> list[int]:
        """Does what :meth:`Client.put_many` does."""
        return await self._drive(batch.put_many(self._session, bodies, priority, delay, ttr, tube))

    async def delete_many(self, jobs: Iterable[Job[B] | int]) -> None:
        """Does what :meth:`Client.delete_many` does."""
        await self._drive(batch.delete_many(self._session, jobs))

    def pipeline(self, *, raise_errors: bool = True) -> AsyncPipeline[B]:
        """Collects commands in an async with block and sends them together at its end.

        Commands are called without await, and each returns a Result. Raises what :meth:`Client.pipeline` does.
        """
        return AsyncPipeline(self._session, self._send, raise_errors=raise_errors)

    # --- The connection ---

    async def _send(self, queue: Queue) -> None:
        if queue:
            await self._drive(batch.run_queue(self._session, queue))

    async def _run(self, call: "Call[T]") -> T:
        """Runs one command."""
        for _ in range(self._settings.repetitions):
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
            if count > 1:
                check_prefix(replies[0])
            return self._session.finish(call, replies[-1])
        except UnexpectedReplyError as error:
            link.fail(error)
            raise

    async def _drive(self, plan: batch.Plan[T]) -> T:
        """Runs a batch. It is never repeated, but what came of it is known in any case."""
        link = await self._connected()
        try:
            shipment = next(plan)
            while True:
                try:
                    await link.exchange(shipment.data, shipment.count, shipment.wait_s, shipment.replies)
                except batch.Broken as error:
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
            if self._link is None or self._link.is_over:
                self._link = await self._dial_until_connected()
            return self._link

    async def _dial_until_connected(self) -> Link:
        pauses = self._settings.backoff.pauses()
        while True:
            try:
                return await self._dial()
            except OSError as error:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise self._settings.cannot_connect(error) from error
            await asyncio.sleep(pause_s)

    async def _dial(self) -> Link:
        """One attempt to connect, and to bring the connection to where the last one was."""
        settings, loop = self._settings, asyncio.get_running_loop()
        address, given = settings.address, settings.given_socket()

        def link() -> Link:
            return Link(self._session, settings.timeout_s)

        async with asyncio.timeout(settings.connect_timeout_s):
            if given is not None:
                _, made = await loop.create_connection(link, sock=given)
            elif address.path:
                _, made = await loop.create_unix_connection(link, address.path)
            else:
                _, made = await loop.create_connection(link, address.host, address.port)
        try:
            commands = self._session.greeting()
            if commands:
                replies: list[Reply] = []
                await made.exchange(b"".join(commands), len(commands), 0, replies)
                for reply in replies:
                    check_prefix(reply)
        except BaseException as error:
            made.fail(ConnectionLostError(f"the connection was not set up: {error}"))
            raise
        return made
