"""What can go wrong in the ID service: a rule is refused, or there is no number now."""

from beanpole.errors import BeanpoleError, ExitCode, StartError


class RuleError(BeanpoleError):
    """A rule is refused: it could repeat a number, or makes no sense. One sentence says why."""


class NeedRangeError(BeanpoleError):
    """No number is reserved. The service reserves a range and tries again; no client sees this."""


class NoNumberError(BeanpoleError):
    """There is no number now. `code` is that of the reply; see docs/ids-wire.md."""

    code = -1


class ExhaustedError(NoNumberError):
    """The last number of the cycle is given. `resets_at_s`: when the next cycle starts; None: never."""

    code = -2

    def __init__(self, maximum: int, resets_at_s: int | None) -> None:
        super().__init__(f"exhausted: no number is left up to {maximum}")
        self.resets_at_s = resets_at_s


class ClockAheadError(NoNumberError):
    """The wall clock has jumped ahead by `ahead_s` seconds, and no operator has accepted it."""

    code = -4

    def __init__(self, ahead_s: int) -> None:
        super().__init__(f"clock: it has jumped ahead by {ahead_s} s; reload to accept it")
        self.ahead_s = ahead_s


class ClockBehindError(NoNumberError):
    """Numbers that show milliseconds are too far ahead of the clock, or it is before their epoch."""

    code = -4


class RuleFailedError(NoNumberError):
    """A rule did not make a number: an error in its Lua code, or a result that is none."""


class RuleCostError(RuleFailedError):
    """A rule in Lua was stopped: it took too many steps, too much time or too much memory."""


class StorageError(NoNumberError):
    """The reserved numbers are given, and the store reserves no more."""

    code = -3


class LimitError(NoNumberError):
    """A limit is reached. `retry_s`: the seconds until the request may be sent again; None: it never fits."""

    code = -5

    def __init__(self, message: str, retry_s: float | None) -> None:
        super().__init__(f"limit: {message}")
        self.retry_s = retry_s


class NeedCookieError(NoNumberError):
    """The reply is too large for an address that nobody has proven to be the client's."""

    code = -6

    def __init__(self) -> None:
        super().__init__("cookie: send the request again with this cookie")


class DatabaseAwayError(StartError):
    """The database can't be reached now; it may be in a moment, as when all machines start at once."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.FAILED)


class MovedError(BeanpoleError):
    """The database is a copy of the one that was used last, or a backup of it."""


class LeaseLostError(StorageError):
    """Another process has taken over the numbers of this node."""


class DatabaseLostError(LeaseLostError):
    """What was committed is gone: the numbers that are reserved here may be reserved again. Nothing more is given."""
