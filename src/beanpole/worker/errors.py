"""What can go wrong in a worker beside what its handlers raise."""

from beanpole.errors import BeanpoleError


class HandlerDiedError(BeanpoleError):
    """The process of a handler ended before the handler did. `exit_code` is negative for a signal; None: unknown."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"the process of the handler ended with exit code {exit_code}")
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.exit_code,)


class WorkerStuckError(BeanpoleError):
    """All slots of a worker were occupied by handlers that hang, for longer than they may be. The worker has ended."""
