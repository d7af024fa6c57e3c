"""The answers that say no, and what else a client raises.

::

    BeanpoleError
    ├── CommandError                 a command was not done; `command`, `id` and `tube` say which
    │   ├── ReplyError               the server's answer is no; one class for each answer
    │   │   ├── BadFormatError       BAD_FORMAT
    │   │   │   └── ArgumentError    the same, found before anything was sent; also a ValueError
    │   │   ├── BuriedError          BURIED, to a put or release
    │   │   ├── DeadlineSoonError    DEADLINE_SOON
    │   │   ├── DrainingError        DRAINING
    │   │   ├── ExistsError          EXISTS, to a change_job; its id is that of the job that has the key
    │   │   ├── ExpectedCrlfError    EXPECTED_CRLF
    │   │   ├── InternalError        INTERNAL_ERROR
    │   │   ├── JobTooBigError       JOB_TOO_BIG
    │   │   ├── NotFoundError        NOT_FOUND
    │   │   │   └── JobLostError     the connection that had reserved the job was lost
    │   │   ├── NotIgnoredError      NOT_IGNORED
    │   │   ├── OutOfMemoryError     OUT_OF_MEMORY
    │   │   │   └── TooManyTubesError  the same to use or watch; the connection is closed
    │   │   ├── RulesError           BAD_RULES; carries the number of the line, and what is wrong with it
    │   │   ├── TimedOutError        TIMED_OUT
    │   │   ├── UnknownCommandError  UNKNOWN_COMMAND
    │   │   └── UnsupportedError     the server lacks what was asked for, and it can't be done safely without
    │   ├── UnexpectedReplyError     what came is no reply of the protocol, or none to this command
    │   └── ConnectionLostError      the connection broke; says whether a command may have been executed
    │       ├── CannotConnectError   there was none to begin with: nothing was sent
    │       └── NoReplyError         the server was silent for too long; also a TimeoutError
    ├── BodyError                    a body can't be decoded; carries the job; also a ValueError
    └── BatchError                   some commands of a batch failed; carries a result or an error for each

Those that the protocol's own modules raise are in `beanpole.errors`; users find all of them there, and in `beanpole`.
"""

from collections.abc import Sequence

from beanpole.errors import BeanpoleError, CommandError, ReplyError


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


class ExistsError(ReplyError):
    """``EXISTS``: another job of the tube has the key. `id` is that job's."""

    id: int

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id


class ExpectedCrlfError(ReplyError):
    """``EXPECTED_CRLF``: a body was not as long as announced."""


class InternalError(ReplyError):
    """``INTERNAL_ERROR``: the server has a bug."""


class JobTooBigError(ReplyError):
    """``JOB_TOO_BIG``: the body is larger than the server's limit."""


class NotFoundError(ReplyError):
    """``NOT_FOUND``: there is no such job or tube, or the job is not in a state or hands that allow the command."""


class JobLostError(NotFoundError):
    """The connection that had reserved the job was lost, so that the server has given it to others."""


class NotIgnoredError(ReplyError):
    """``NOT_IGNORED``: the last tube of a watch list stays."""


class OutOfMemoryError(ReplyError):
    """``OUT_OF_MEMORY``: the server has no memory or no space for the job; try again later."""


class TooManyTubesError(OutOfMemoryError):
    """``OUT_OF_MEMORY`` to ``use`` or ``watch``: the server has as many tubes as it may have. The connection is closed.

    What was sent behind was not executed, and jobs that were reserved over the connection are ready again.
    """

    def __init__(self, message: str = "OUT_OF_MEMORY: the server has as many tubes as its --tubes-max allows") -> None:
        super().__init__(message)


class TimedOutError(ReplyError):
    """``TIMED_OUT``: no job came within the timeout of a reserve."""


class UnknownCommandError(ReplyError):
    """``UNKNOWN_COMMAND``: the server is older than the command."""


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
    """No attempt to connect succeeded. Nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, outcome_unknown=False)


class NoReplyError(ConnectionLostError, TimeoutError):
    """The server was silent for longer than the client's timeout. The connection is closed."""
