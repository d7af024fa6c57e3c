"""Pipelines: commands that are collected, sent together, and have their results later.

Both kinds have the commands of :mod:`~beanpole.client.commands`, each of which returns a :class:`Result`.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from beanpole.client.commands import Commands, Queueing
from beanpole.client.extended import Extended
from beanpole.client.plan import Queue, Result
from beanpole.client.session import Session

if TYPE_CHECKING:
    from beanpole.protocol.wire import Call

B = TypeVar("B")
T = TypeVar("T")


class _Queued(Commands[B], Extended[B], Queueing):
    def __init__(self, session: Session[B], *, raise_errors: bool) -> None:
        self._session = session
        self._queue = Queue()
        self._results: list[Result[Any]] = []
        self._raise_errors = raise_errors

    def _run(self, call: "Call[T]") -> Result[T]:
        result: Result[T] = Result()
        self._queue.append((call, result))
        self._results.append(result)
        return result

    def __len__(self) -> int:
        return len(self._queue)

    def _flushed(self) -> None:
        """Drops the results of what was sent; raises the first error unless errors are not to be raised."""
        results, self._results = self._results, []
        if self._raise_errors:
            for result in results:
                if result.error is not None:
                    raise result.error

    def _forget(self) -> None:
        self._queue.clear()
        self._results.clear()


class Pipeline(_Queued[B]):
    """Commands of a :class:`~beanpole.client.sync.Client` that go together."""

    def __init__(self, session: Session[B], send: Callable[[Queue], None], *, raise_errors: bool) -> None:
        super().__init__(session, raise_errors=raise_errors)
        self._send = send

    def flush(self) -> None:
        """Sends what was collected and reads all answers; then every result is done.

        Raises the first error of a command, unless the pipeline was made with raise_errors=False, and
        ConnectionLostError in any case.
        """
        self._send(self._queue)
        self._flushed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()
        else:
            self._forget()


class AsyncPipeline(_Queued[B]):
    """Commands of an :class:`~beanpole.client.aio.AsyncClient` that go together. Only :meth:`flush` is awaited."""

    def __init__(self, session: Session[B], send: Callable[[Queue], Awaitable[None]], *, raise_errors: bool) -> None:
        super().__init__(session, raise_errors=raise_errors)
        self._send = send

    async def flush(self) -> None:
        """Does what :meth:`Pipeline.flush` does."""
        await self._send(self._queue)
        self._flushed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.flush()
        else:
            self._forget()
