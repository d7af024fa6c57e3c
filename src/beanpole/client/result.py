"""What a command of a pipeline will return. No I/O."""

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from beanpole.errors import BeanpoleError

if TYPE_CHECKING:
    from beanpole.protocol.wire import Call

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
        """Sets the value."""
        self._value = value
        self.done = True

    def fail(self, error: BeanpoleError) -> None:
        """Sets the error."""
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
"""Commands that are not sent yet, each with its result."""
