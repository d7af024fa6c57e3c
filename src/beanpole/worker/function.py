"""Functions whose calls can be put as jobs: what :meth:`Worker.function` returns, and the handler that it registers.

The body of such a job is a JSON object of the arguments, by the names of the parameters. Defaults are not sent, so that
a default which changes holds for jobs that wait. A body that does not fit the function is dead at its first attempt:
another one would not help.

Nothing connects before the first put. Threads share a pool of connections and each event loop has one of its own, which
ends with the loop; a forked process makes its own, as two processes must not speak on one connection.
"""

import asyncio
import codecs
import contextlib
import contextvars
import copy
import functools
import importlib
import inspect
import json
import os
import pickle
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack

from beanpole.client import Address, AsyncClient, Login, Pool, putting
from beanpole.client.codec import BytesCodec, Codec, JsonCodec, TextCodec
from beanpole.errors import ArgumentError
from beanpole.worker.handler import Task, is_async
from beanpole.worker.policy import Dead

P = ParamSpec("P")
R = TypeVar("R")

_task: contextvars.ContextVar[Task[Any]] = contextvars.ContextVar("beanpole.task")


class PlainOptions(TypedDict, total=False):
    """What any server can be given with a put."""

    priority: int
    delay: float
    ttr: int
    tube: str


class PutOptions(PlainOptions, putting.PutOptions, total=False):
    """How a job is put: the arguments of :meth:`Client.put` besides the body."""


Server = tuple[Address, Login]
"""Where a server is, and how a client shows it who it is."""


class Connections:
    """The connections over which the functions of a worker put their jobs, to the server that the worker has now."""

    def __init__(self, server: Callable[[], Server], **options: Any) -> None:  # noqa: ANN401 - a client's
        self._server = server
        self._options = options
        # With the process's id: a forked one has the parent's pools, and leaves them alone.
        self._pools: dict[tuple[int, Server], Pool] = {}
        self._clients: dict[
            tuple[asyncio.AbstractEventLoop, Server],
            tuple[AsyncClient[bytes], AsyncGenerator[AsyncClient[bytes], None]],
        ] = {}
        """The client of each event loop, and the generator that closes it."""
        weakref.finalize(self, _close, self._pools)
        self.override: Server | None = None
        """In a process that runs handlers: the server of the worker that has started it."""

    @property
    def server(self) -> Server:
        return self.override or self._server()

    def pool(self) -> Pool:
        """The pool of this process, for threads."""
        key = (os.getpid(), self.server)
        pool = self._pools.get(key)
        if pool is None:  # of two threads that come at once, one makes a pool in vain, which has connected to nothing
            address, login = key[1]
            made = Pool([str(address)], encoding=None, login=login, **self._options)
            pool = self._pools.setdefault(key, made)
        return pool

    async def client(self) -> AsyncClient[bytes]:
        """The client of the running event loop."""
        key = (asyncio.get_running_loop(), self.server)
        if key not in self._clients:
            for each in [each for each in list(self._clients) if each[0].is_closed()]:
                self._clients.pop(each, None)
            lent = self._lend(key)
            self._clients[key] = await anext(lent), lent
        return self._clients[key][0]

    async def _lend(self, key: tuple[asyncio.AbstractEventLoop, Server]) -> AsyncGenerator[AsyncClient[bytes], None]:
        """A client that is closed with the loop: asyncio.run() and its like end the generators that are still open."""
        address, login = key[1]
        client = AsyncClient(address, None, login=login, **self._options)
        try:
            yield client
        finally:
            self._clients.pop(key, None)
            await client.close()


def _close(pools: dict[tuple[int, Server], Pool]) -> None:
    for (pid, _), pool in pools.items():
        if pid == os.getpid():
            pool.close()


class JobFunction(Generic[P, R]):
    """A function of a worker: ``send(3)`` calls it here and now, ``send.put(3)`` puts a job that calls it in a worker.

    Made by :meth:`Worker.function`.
    """

    def __init__(self, function: Callable[P, R], tube: str, connections: Connections) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        """The function itself."""
        self.tube = tube
        """Where its jobs are put."""
        self._connections = connections
        self._options: PutOptions = {}
        self._signature = signature_of(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.__module__}.{name_of(self.function)} for jobs of {self.tube}>"

    def put(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Puts a job that calls the function with these arguments; returns its id.

        Raises TypeError for arguments that do not fit the function, or that JSON can't say: nothing is put then. Raises
        what :meth:`Client.put` does.
        """
        body = self.encode(*args, **kwargs)
        return self._connections.pool().put(body, **self._put_options())

    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Does what :meth:`put` does, for asyncio."""
        body = self.encode(*args, **kwargs)
        client = await self._connections.client()
        return await client.put(body, **self._put_options())

    def options(self, **options: Unpack[PutOptions]) -> Self:
        """The same function with options for its jobs, those of :meth:`Client.put`: ``send.options(delay=60).put(3)``.

        Raises TypeError for an option that there is none.
        """
        if unknown := set(options) - PutOptions.__annotations__.keys():
            raise TypeError(f"options() knows {', '.join(PutOptions.__annotations__)}, not {', '.join(unknown)}")
        made = copy.copy(self)
        made._options = self._options | options  # noqa: SLF001 - it is of this class
        return made

    def encode(self, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """The body of a job that calls the function with these arguments. Raises TypeError."""
        try:
            arguments = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._called()}: {error}") from None
        try:
            return _json(arguments)
        except (TypeError, ValueError, RecursionError):
            for name, value in arguments.items():
                try:
                    _json(value)
                except (TypeError, ValueError, RecursionError) as error:
                    raise TypeError(f"{self._called()}: JSON can't say the parameter {name!r}: {error}") from error
            raise

    def decode(self, body: object) -> dict[str, Any]:
        """The arguments of a body. Raises Dead if it does not fit."""
        try:
            arguments = json.loads(body) if isinstance(body, str | bytes) else body
            if not isinstance(arguments, dict):
                raise TypeError(f"it is of type {type(arguments).__name__}")  # noqa: TRY301 - one sentence for all faults
            self._signature.bind(**arguments)
        except (TypeError, ValueError) as error:
            raise Dead(f"the body is no JSON object that fits {self._called()}: {error}") from None
        return arguments

    def _put_options(self) -> PutOptions:
        return {"tube": self.tube, **self._options}

    def _called(self) -> str:
        return f"{name_of(self.function)}{self._signature.replace(return_annotation=inspect.Signature.empty)}"


class BatchFunction(JobFunction[[Any], R]):
    """A function for batches: ``send.put(body)`` puts a job, and a worker calls ``send(tasks)`` with a list of them.

    The body is whatever JSON can say. Made by :meth:`Worker.function` with `batch`.
    """

    def encode(self, body: Any) -> bytes:  # noqa: ANN401 - what JSON can say
        """The body of a job. Raises TypeError."""
        try:
            return _json(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{self._called()}: JSON can't say the body: {error}") from error

    def decode(self, body: object) -> Any:  # noqa: ANN401 - see above
        """What was put. Raises Dead if it is no JSON."""
        try:
            return json.loads(body) if isinstance(body, str | bytes) else body
        except ValueError as error:
            raise Dead(f"the body is no JSON: {error}") from None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def reads_json(codec: Codec[Any]) -> bool:
    """Whether a codec makes of JSON in UTF-8 what :meth:`JobFunction.decode` takes."""
    if isinstance(codec, TextCodec):
        return codecs.lookup(codec.encoding).name == "utf-8"
    return isinstance(codec, BytesCodec | JsonCodec)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function, which must all have a name for the JSON object. Raises ArgumentError."""
    signature = inspect.signature(function)
    for each in signature.parameters.values():
        if each.kind in {each.POSITIONAL_ONLY, each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            raise ArgumentError(
                f"the body of a job is a JSON object of the parameters, each by its name: {each} of "
                f"{name_of(function)}{signature} can't be one"
            )
    return signature


def current_task() -> Task[Any] | None:
    """The job for which a function of :meth:`Worker.function` runs here; None: it was called as any function is."""
    return _task.get(None)


# --- The handler ------------------------------------------------------------------------------------------------------


class Handle:
    """The handler of a function: calls it with what the body says. Another process finds it by its name."""

    def __init__(self, called: JobFunction[..., Any], connections: Connections) -> None:
        self.__module__ = called.__module__
        self.__qualname__ = name_of(called.function)
        self._called = called
        self._connections = connections

    def __reduce__(self) -> tuple[Any, ...]:
        name = (self.__module__, self.__qualname__)
        find(*name)
        return there, (*name, self._connections.server)

    @contextlib.contextmanager
    def _running(self, task: Task[Any]) -> Iterator[dict[str, Any]]:
        """The arguments for the function; :func:`current_task` is the job in the with block."""
        arguments = self._called.decode(task.body)
        before = _task.set(task)
        try:
            yield arguments
        finally:
            _task.reset(before)

    def _read(self, tasks: list[Task[Any]]) -> list[Task[Any]]:
        """The tasks of a batch with their bodies decoded; those of which that can't be are dead."""
        found = []
        for task in tasks:
            try:
                task.body = self._called.decode(task.body)
                found.append(task)
            except Dead as error:
                task.fail(error)
        return found


class PlainHandle(Handle):
    """Of a plain function, in a thread or a process."""

    def __call__(self, task: Task[Any]) -> object:
        """Calls the function."""
        with self._running(task) as arguments:
            return self._called.function(**arguments)


class AsyncHandle(Handle):
    """Of a coroutine function, on the event loop."""

    async def __call__(self, task: Task[Any]) -> object:
        """Awaits the function."""
        with self._running(task) as arguments:
            return await self._called.function(**arguments)


class PlainBatchHandle(Handle):
    """Of a plain function for batches."""

    def __call__(self, tasks: list[Task[Any]]) -> object:
        """Calls the function with the jobs whose body can be read, if there are any."""
        return self._called.function(found) if (found := self._read(tasks)) else None


class AsyncBatchHandle(Handle):
    """Of a coroutine function for batches."""

    async def __call__(self, tasks: list[Task[Any]]) -> object:
        """Awaits the function with the jobs whose body can be read, if there are any."""
        return await self._called.function(found) if (found := self._read(tasks)) else None


def handle_of(called: JobFunction[..., Any], connections: Connections) -> Callable[[Any], Any]:
    if isinstance(called, BatchFunction):
        return (AsyncBatchHandle if is_async(called.function) else PlainBatchHandle)(called, connections)
    return (AsyncHandle if is_async(called.function) else PlainHandle)(called, connections)


def find(module: str, name: str) -> JobFunction[..., Any]:
    """What :meth:`Worker.function` has made of a function: under its name, or under another in the same module.

    Raises PicklingError.
    """
    space = importlib.import_module(module)
    found: object = None
    with contextlib.suppress(AttributeError):
        found = functools.reduce(getattr, name.split("."), space)
    if isinstance(found, JobFunction):
        return found
    for each in vars(space).values():
        if isinstance(each, JobFunction) and each.function is found:
            return each
    raise pickle.PicklingError(f"another process can't find {name} in {module}: decorate it at the top of its module")


def there(module: str, name: str, server: Server) -> Callable[[Any], Any]:
    """The handler in a process that runs handlers. What it puts goes where the worker's jobs are from."""
    found = find(module, name)
    connections = found._connections  # noqa: SLF001 - both are one thing in two processes
    connections.override = server
    return handle_of(found, connections)
