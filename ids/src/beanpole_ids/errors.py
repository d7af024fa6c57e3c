"""What can go wrong in the ID service, in its client, and as a program, with the exit codes.

In the service, what a client does wrong is a reply, never an exception; what we do wrong is an ``AssertionError``.
"""

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of ``beanpole-ids``."""

    OK = 0
    FAILED = 1
    NOT_FOUND = 2
    NO_SERVER = 4
    USAGE = 5
    DATABASE_LOST = 7
    """What was confirmed is gone from the database: starting again proves nothing."""

    NODE_TAKEN = 10
    """Another process has the number of this node."""

    CANNOT_LISTEN = 111


class IdsError(Exception):
    """The base of every error that the service and its client raise on purpose."""


class StartError(IdsError):
    """The service can't start: one sentence for the user, and the exit code of the process."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# --- The client -------------------------------------------------------------------------------------------------------


class ArgumentError(IdsError, ValueError):
    """An argument that a node would refuse, or misread. Nothing was sent."""


class UnexpectedReplyError(IdsError):
    """What came is no reply of the ID service."""


class IdServiceError(IdsError):
    """The ID service has answered, and the answer is no.

    `code` is -1 (the request or the rule is wrong), -2 (exhausted), -3 (storage), -4 (clock), -5 (a limit) or -6 (the
    node takes no cookie of ours); `resets_at` is when an exhausted counter starts again, in ISO 8601, or None;
    `retry_s` are the seconds until a limit allows the request, or None: it never does.
    """

    def __init__(self, message: str, code: int, resets_at: str | None = None, retry_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.resets_at = resets_at
        self.retry_s = retry_s


class NoNodeError(IdsError, ConnectionError):
    """No node of the ID service has answered. A number may be spent: a gap."""


# --- The service ------------------------------------------------------------------------------------------------------


class RuleError(IdsError):
    """A rule is refused: it could repeat a number, or makes no sense. One sentence says why."""


class NeedRangeError(IdsError):
    """No number is reserved. The service reserves a range and tries again; no client sees this."""


class NeedTextsError(IdsError):
    """The text of a number is not made yet. The service has it made and tries again; no client sees this."""


class NoNumberError(IdsError):
    """There is no number now. `code` is that of the reply; see docs/wire.md."""

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
    """A rule in Lua was stopped, as it took too much time or too much memory; or it is too slow."""


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


class MovedError(IdsError):
    """The database is a copy of the one that was used last, or a backup of it."""


class LeaseLostError(StorageError):
    """Another process has taken over the numbers of this node."""


class DatabaseLostError(LeaseLostError):
    """What was committed is gone: the numbers that are reserved here may be reserved again. Nothing more is given."""
