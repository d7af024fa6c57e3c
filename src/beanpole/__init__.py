"""A work queue server that speaks the beanstalkd protocol, and a client for it.

The client's names are here too, imported when they are first asked for: a server needs none of them. What a script
that was written for greenstalk uses is among them, so ``import beanpole as greenstalk`` will do.
"""

import importlib

TYPE_CHECKING = False  # typing's would be imported before a server listens, and take a tenth of the time until then

# ruff: noqa: F403, F405 - __all__ says which names these are
if TYPE_CHECKING:
    from beanpole.client import *
    from beanpole.errors import *
    from beanpole.version import __version__ as __version__
    from beanpole.worker import *

    Error = BeanpoleError
    BeanstalkdError = ReplyError
    UnknownResponseError = UnexpectedReplyError

__all__ = [
    "DEFAULT_DELAY",
    "DEFAULT_PRIORITY",
    "DEFAULT_TTR",
    "DEFAULT_TUBE",
    "Address",
    "ArgumentError",
    "AsyncClient",
    "AsyncPool",
    "Backoff",
    "BadFormatError",
    "BatchError",
    "BeanpoleError",
    "BeanstalkdError",
    "BodyError",
    "BuriedError",
    "Bury",
    "BytesCodec",
    "CannotConnectError",
    "Client",
    "Codec",
    "CommandError",
    "ConnectionLostError",
    "Dead",
    "DeadlineSoonError",
    "DrainingError",
    "ElsewhereError",
    "Error",
    "ExistsError",
    "ExpectedCrlfError",
    "Explanation",
    "FailedAttempt",
    "ForbiddenError",
    "HandlerDiedError",
    "Histogram",
    "Histograms",
    "Inserted",
    "InternalError",
    "Job",
    "JobFunction",
    "JobInfo",
    "JobLostError",
    "JobTooBigError",
    "JsonCodec",
    "LineError",
    "Login",
    "NoReplyError",
    "NotAuthenticatedError",
    "NotFoundError",
    "NotIgnoredError",
    "OutOfMemoryError",
    "Outcome",
    "Page",
    "Pool",
    "Reason",
    "ReplyError",
    "Retry",
    "Rules",
    "RulesError",
    "Schedule",
    "ScheduleError",
    "SessionInfo",
    "Stats",
    "StatsJob",
    "StatsTube",
    "Task",
    "TextCodec",
    "TimedOutError",
    "TooManyTubesError",
    "UnexpectedReplyError",
    "UnknownCommandError",
    "UnknownResponseError",
    "UnsupportedError",
    "Worker",
    "WorkerStuckError",
    "current_task",
    "exponential",
]

DEFAULT_TUBE = "default"
DEFAULT_PRIORITY = 65_536
DEFAULT_DELAY = 0
DEFAULT_TTR = 60

_GREENSTALK = {
    "Error": "BeanpoleError",
    "BeanstalkdError": "ReplyError",
    "UnknownResponseError": "UnexpectedReplyError",
}
"""What greenstalk calls some of the errors."""

_ELSEWHERE = {"__version__": "version"} | dict.fromkeys(
    ("Bury", "Dead", "JobFunction", "Outcome", "Retry", "Task", "Worker", "current_task", "exponential"), "worker"
)
"""Which package a name is in, if it is neither an error nor the queue's client."""


def __getattr__(name: str) -> object:
    """Imports what a client needs, when it is asked for."""
    if name not in __all__ and name not in _ELSEWHERE:
        raise AttributeError(f"module 'beanpole' has no attribute {name!r}")
    package = "errors" if name.endswith("Error") else _ELSEWHERE.get(name, "client")
    module = importlib.import_module(f"beanpole.{package}")
    found: object = getattr(module, _GREENSTALK.get(name, name))
    return found
