"""What can go wrong in Beanpole as a program.

::

    BeanpoleError
    ├── RuleError                    a rule of the ID service is refused: it could repeat a number, or makes no sense
    ├── NeedRangeError               no number is reserved; inside the ID service only
    ├── NoNumberError                the ID service has no number to give now; carries the code of the reply
    │   ├── ExhaustedError           the cycle's last number is given; says when the next one begins
    │   ├── ClockAheadError          the wall clock has jumped ahead, and nobody has said that it is right
    │   ├── RuleFailedError          a rule did not make a number
    │   └── StorageError             what is reserved is given, and nothing more can be reserved
    │       └── LeaseLostError       another process has the node's numbers; this one must stop
    └── StartError          the server can't start; carries the exit code that beanstalkd would use

What a client does wrong is a reply, never an exception; what we do wrong is an ``AssertionError``.
"""

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of ``beanpole serve``, the same as beanstalkd's."""

    OK = 0
    FAILED = 1
    USAGE = 5
    DATA_DIR_LOCKED = 10
    UNKNOWN_USER = 33
    CANNOT_LISTEN = 111


class BeanpoleError(Exception):
    """The base of every error that Beanpole raises on purpose."""


class StartError(BeanpoleError):
    """The server can't start: one sentence for the user, and the exit code of the process."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# --- The ID service ---------------------------------------------------------------------------------------------------


class RuleError(BeanpoleError):
    """A rule is refused: it could repeat a number, or makes no sense. One sentence says why."""


class NeedRangeError(BeanpoleError):
    """No number is reserved. The ID service reserves some and tries again; nobody else sees this."""


class NoNumberError(BeanpoleError):
    """The ID service has no number to give now. `code` is that of the reply; see docs/ids.md."""

    code = -1


class ExhaustedError(NoNumberError):
    """The last number of the cycle is given. `resets_at_s`: when the next cycle starts; None: never."""

    code = -2

    def __init__(self, maximum: int, resets_at_s: int | None) -> None:
        super().__init__(f"exhausted: no number is left up to {maximum}")
        self.resets_at_s = resets_at_s


class ClockAheadError(NoNumberError):
    """The wall clock has jumped ahead by `ahead_s` seconds, and nobody has said that it is right."""

    code = -4

    def __init__(self, ahead_s: int) -> None:
        super().__init__(f"clock: it has jumped ahead by {ahead_s} s; reload to accept it")
        self.ahead_s = ahead_s


class RuleFailedError(NoNumberError):
    """A rule did not make a number: an error in its Lua code, or a result that is none."""


class StorageError(NoNumberError):
    """What is reserved is given, and the store does not reserve more."""

    code = -3


class LeaseLostError(StorageError):
    """Another process has taken over the numbers of this node."""
