"""What can go wrong in Beanpole, and the exit codes of its programs.

::

    BeanpoleError
    ├── StartError                   the server can't start; carries the exit code that beanstalkd would use
    ├── FileError                    a file that people write is wrong; carries its name and a line
    │   ├── AccessError              one that says who may do what
    │   └── MapError                 a map of shards
    ├── CommandError                 a command was not done; `command`, `id` and `tube` say which
    │   ├── ReplyError               the server's answer is no; one class for each answer
    │   │   ├── BadFormatError       BAD_FORMAT
    │   │   │   └── ArgumentError    the same, found before anything was sent; also a ValueError
    │   │   ├── BuriedError          BURIED, to a put or release
    │   │   ├── DeadlineSoonError    DEADLINE_SOON
    │   │   ├── DrainingError        DRAINING
    │   │   ├── ElsewhereError       ELSEWHERE, to a change_job or move_jobs behind a router; says on which shard
    │   │   ├── ExistsError          EXISTS, to a change_job or fire_schedule; its id is that of who has the key
    │   │   ├── ExpectedCrlfError    EXPECTED_CRLF
    │   │   ├── ForbiddenError       FORBIDDEN; says which right on which tube the user lacks
    │   │   ├── InternalError        INTERNAL_ERROR
    │   │   ├── JobTooBigError       JOB_TOO_BIG
    │   │   ├── NotFoundError        NOT_FOUND
    │   │   │   └── JobLostError     the connection that had reserved the job was lost
    │   │   ├── NotAuthenticatedError  NOT_AUTHENTICATED; the connection is closed
    │   │   ├── NotIgnoredError      NOT_IGNORED
    │   │   ├── OutOfMemoryError     OUT_OF_MEMORY
    │   │   │   └── TooManyTubesError  the same to use or watch; the connection is closed
    │   │   ├── LineError            a line of a text is wrong; carries its number, and what is wrong with it
    │   │   │   ├── RulesError       BAD_RULES
    │   │   │   └── ScheduleError    BAD_SCHEDULE
    │   │   ├── TimedOutError        TIMED_OUT
    │   │   ├── UnknownCommandError  UNKNOWN_COMMAND
    │   │   └── UnsupportedError     the server lacks what was asked for, and it can't be done safely without
    │   ├── UnexpectedReplyError     what came is no reply of the protocol, or none to this command
    │   └── ConnectionLostError      the connection broke; says whether a command may have been executed
    │       ├── CannotConnectError   there was none to begin with: nothing was sent
    │       └── NoReplyError         the server was silent for too long; also a TimeoutError
    ├── BodyError                    a body can't be decoded; carries the job; also a ValueError
    ├── BatchError                   some commands of a batch failed; carries a result or an error for each
    ├── HandlerDiedError             the process of a worker's handler ended before the handler did
    └── WorkerStuckError             all slots of a worker hang; it has ended

In the server, what a client does wrong is a reply, never an exception; what we do wrong is an ``AssertionError``.
"""

import enum
from collections.abc import Sequence


class ExitCode(enum.IntEnum):
    """Exit codes. Those of ``beanpole serve`` are the same as beanstalkd's."""

    OK = 0
    FAILED = 1
    NOT_FOUND = 2
    TIMED_OUT = 3
    NO_SERVER = 4
    USAGE = 5
    OTHER_ORDER = 8
    OTHER_WORDS = 9
    DATA_DIR_LOCKED = 10
    UNKNOWN_USER = 33
    WORKER_STUCK = 75
    LOG_CHANGED = 7
    """What was confirmed is gone from a cluster's log: starting again proves nothing."""

    CANNOT_LISTEN = 111


class BeanpoleError(Exception):
    """The base of every error that Beanpole raises on purpose."""


class StartError(BeanpoleError):
    """The server can't start: one sentence for the user, and the exit code of the process."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class FileError(BeanpoleError):
    """A file is wrong. `line` counts from 1, and is 0 for the file as a whole; `why` is a sentence."""

    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"{file}:{line}: {why}" if line else f"{file}: {why}")
        self.file = file
        self.line = line
        self.why = why


class AccessError(FileError):
    """The file of users is wrong, or that of their tokens."""


class MapError(FileError):
    """A map of shards is wrong."""


# --- The client -------------------------------------------------------------------------------------------------------


class CommandError(BeanpoleError):
    """A command was not done, or nobody knows whether it was."""

    command: str = ""
    """What was sent, as the protocol calls it: ``delete``; empty: nothing was, or nobody knows for which it came."""

    id: int | None = None
    """The job that the command named."""

    tube: str | None = None
    """The tube that the command named, or that was used for it; the watched one, if there is only one."""


class ReplyError(CommandError):
    """The server has answered, and the answer is no. The connection is as good as before, where it is not said."""


class BadFormatError(ReplyError):
    """``BAD_FORMAT``: the command is malformed."""


class ArgumentError(BadFormatError, ValueError):
    """An argument that the server would refuse, or misread. Nothing was sent."""


class LineError(ReplyError):
    """A line of a text is wrong, and nothing of it is set.

    `line` counts from 1, and is 0 for the text as a whole; `why` is a sentence.
    """

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}" if line else why)
        self.line = line
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.line, self.why), self.__dict__


class RulesError(LineError):
    """``BAD_RULES``: a line of the rules of a tube is wrong."""


class ScheduleError(LineError):
    """``BAD_SCHEDULE``: a line of a schedule is wrong, or it never fires."""


class UnexpectedReplyError(CommandError):
    """What came is no reply of the protocol, or none that this command can have. The connection is closed."""


class BuriedError(ReplyError):
    """``BURIED``: the server had no memory for its queue, or could not write its log, and buried the job.

    `id` is the job's.
    """

    def __init__(self, message: str, id: int | None = None) -> None:
        super().__init__(message)
        self.id = id


class DeadlineSoonError(ReplyError):
    """``DEADLINE_SOON``: a job that this connection has reserved is in its last second; finish or touch it."""


class DrainingError(ReplyError):
    """``DRAINING``: the server takes no more jobs."""


class ElsewhereError(ReplyError):
    """``ELSEWHERE``: the other tube has its home on another shard, `shard`, and a job can't leave its own."""

    shard: str

    def __init__(self, message: str, shard: str) -> None:
        super().__init__(message)
        self.shard = shard


class ExistsError(ReplyError):
    """``EXISTS``: another job of the tube has the key. `id` is that job's."""

    id: int

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id


class ExpectedCrlfError(ReplyError):
    """``EXPECTED_CRLF``: a body was not as long as announced."""


class ForbiddenError(ReplyError):
    """``FORBIDDEN``: the user lacks a right on a tube: `right` is ``put``, ``reserve`` and so on."""

    def __init__(self, message: str, right: str = "", tube: str | None = None) -> None:
        super().__init__(message)
        self.right = right
        self.tube = tube


class InternalError(ReplyError):
    """``INTERNAL_ERROR``: the server has a bug."""


class JobTooBigError(ReplyError):
    """``JOB_TOO_BIG``: the body is larger than the server's limit."""


class NotFoundError(ReplyError):
    """``NOT_FOUND``: there is no such job or tube, or the job is not in a state or hands that allow the command."""


class JobLostError(NotFoundError):
    """The connection that had reserved the job was lost, so that the server has given it to others."""


WHO_IS_UNKNOWN = (
    "the server does not know who this is: a token or certificate is missing, wrong or over, or the user has as many "
    "connections as it may"
)


class NotAuthenticatedError(ReplyError):
    """``NOT_AUTHENTICATED``, or a refused certificate: the server does not know who this is. The connection is closed.

    A client does not try again by itself.
    """


class NotIgnoredError(ReplyError):
    """``NOT_IGNORED``: the last tube of a watch list stays."""


class OutOfMemoryError(ReplyError):
    """``OUT_OF_MEMORY``: the server has no memory or no space for the job; try again later."""


class TooManyTubesError(OutOfMemoryError):
    """``OUT_OF_MEMORY`` to ``use`` or ``watch``: server or space has as many tubes as it may. The connection is closed.

    What was sent behind was not executed, and jobs that were reserved over the connection are ready again.
    """

    def __init__(
        self, message: str = "OUT_OF_MEMORY: there are as many tubes as --tubes-max, or the limit of a space, allows"
    ) -> None:
        super().__init__(message)


class TimedOutError(ReplyError):
    """``TIMED_OUT``: no job came within the timeout of a reserve."""


class UnknownCommandError(ReplyError):
    """``UNKNOWN_COMMAND``: the server is too old or does not know who this is, or the user lacks the right to it."""


class UnsupportedError(ReplyError):
    """The server has not listed what was asked for, and without it that can't be done safely. Nothing was sent.

    `feature` is what it lacks, as ``list-extensions`` would name it: ``put-job.key`` for example.
    """

    def __init__(self, feature: str) -> None:
        super().__init__(f"the server does not support {feature}")
        self.feature = feature


class BodyError(BeanpoleError, ValueError):
    """A body that came can't be decoded. `id` and `data` are the job's: bury or delete it."""

    def __init__(self, message: str, id: int, data: bytes) -> None:
        super().__init__(message)
        self.id = id
        self.data = data


class BatchError(BeanpoleError):
    """Some commands of a batch failed.

    `results` has an entry for each command that was sent, in order: its value or its error. What is missing at the end
    was not sent.
    """

    def __init__(self, message: str, results: Sequence[object]) -> None:
        super().__init__(message)
        self.results = results


class ConnectionLostError(CommandError, ConnectionError):
    """The connection broke. `outcome_unknown`: a command was sent, and may or may not have been executed.

    Jobs that were reserved over the connection are ready again.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = True) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class CannotConnectError(ConnectionLostError):
    """No attempt to connect succeeded. Nothing was sent; or it was to be sent again, then `outcome_unknown` is true."""

    def __init__(self, message: str) -> None:
        super().__init__(message, outcome_unknown=False)


class NoReplyError(ConnectionLostError, TimeoutError):
    """The server was silent for longer than the client's timeout. The connection is closed."""


# --- The worker -------------------------------------------------------------------------------------------------------


class HandlerDiedError(BeanpoleError):
    """The process of a handler ended before the handler did. `exit_code` is negative for a signal; None: unknown."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"the process of the handler ended with exit code {exit_code}")
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.exit_code,)


class WorkerStuckError(BeanpoleError):
    """All slots of a worker were occupied by handlers that hang, for longer than they may be. The worker has ended."""
