"""Pipelines: commands that are collected, sent together, and have their results later.

Both kinds have the commands of :mod:`~beanpole.client.commands`, each of which returns a :class:`Result`.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from beanpole.client.commands import Commands, Queueing
from beanpole.client.session import Session
from beanpole.errors import BeanpoleError

if TYPE_CHECKING:
    from beanpole.protocol.wire import Call

B = TypeVar("B")
T = TypeVar("T")


class Result(Generic[T]):
    """What a command of a pipeline will return."""

    __slots__ = ("_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        """Whether there is a value or an error."""
        self.error: BeanpoleError | None = None
        """The error of the command; None: it succeeded, or is not done."""

    def succeed(self, value: T) -> None:
        """Has the value from now on."""
        self._value = value
        self.done = True

    def fail(self, error: BeanpoleError) -> None:
        """Has the error from now on."""
        self.error = error
        self.done = True

    def result(self) -> T:
        """The value of the command. Raises its error; RuntimeError if the pipeline has not been sent."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise RuntimeError("the pipeline has not been sent: leave its with block, or call flush()")
        return self._value


Queue = deque["tuple[Call[Any], Result[Any]]"]


class _Queued(Commands[B], Queueing):
    """What both kinds of pipelines have in common."""

    def __init__(self, session: Session[B], *, raise_errors: bool) -> None:
        self._session = session
        self._queue: Queue = deque()
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
        """Forgets what was sent; raises the first error if that is wanted."""
        results, self._results = self._results, []
        if self._raise_errors:
            for result in results:
                if result.error is not None:
                    raise result.error

    def _forget(self) -> None:
        """Forgets everything that was not sent."""
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
