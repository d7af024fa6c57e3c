"""The events of a worker: each line that it logs begins with the name of one. The page "Worker" has the same table."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What a line of the log is about."""

    name: str
    level: str
    fields: tuple[str, ...]  # what may stand behind it
    meaning: str


JOB = ("id", "tube", "attempt", "max_attempts")  # of which job a line is, and of which attempt at it
STARTED = Event("worker started", "info", ("server", "tubes", "concurrency"), "it begins to connect")
METRICS = Event("metrics are served", "info", ("addresses",), "with `--metrics`: where")
METRICS_WAIT = Event(
    "metrics are not served",
    "warning",
    ("error",),
    "with `--metrics`: something else has the address, and it is tried again each second",
)
STOPPING = Event(
    "stopping",
    "info",
    ("running", "jobs", "grace_s", "why"),
    "it takes no more jobs, and waits for those that run, of which `jobs` names five; `why`: `signal`, `stop`, "
    "`max_jobs`, `stuck` or `schedule`",
)
STOPPED = Event("worker stopped", "info", ("done", "failed"), "all is over; how many jobs it did, and attempts failed")
NO_CONNECTION = Event("no connection", "warning", ("error",), "it tries again until there is one; once for all slots")
CONNECTED_AGAIN = Event("connected again", "info", ("server",), "to which address")
NO_RIGHT = Event(
    "no right", "warning", ("tubes",), "this user may not reserve from these tubes: their handlers get no jobs"
)
NOT_SCHEDULED = Event(
    "a schedule was not set",
    "error",
    ("schedule", "error"),
    "the server refuses it, and keeps what it has: the worker tries again when it connects again",
)
JOB_DONE = Event("job done", "info", JOB, "only with `log_done=True` (`beanpole worker --verbose`)")
JOB_RETRIED = Event("job retried", "info", (*JOB, "reason", "delay_s"), "the handler raised `Retry`")
JOB_FAILED = Event(
    "job failed",
    "warning",
    (*JOB, "error", "delay_s"),
    "the next attempt is in `delay_s` seconds, or when the server says",
)
JOB_DEAD = Event(
    "job dead",
    "error",
    (*JOB, "error", "reason"),
    "no attempt is left, or the handler raised `Dead`; with the traceback of the error, or of the one behind `Dead`",
)
JOB_BURIED = Event("job buried", "error", (*JOB, "error", "reason"), "the handler raised or returned `Bury`")
JOB_RELEASED = Event("job released", "info", JOB, "the worker stops, and the time of grace is over")
JOB_LOST = Event("job lost", "warning", (*JOB, "error"), "the server has it again, or it was cancelled")
BACKOFF_FAILED = Event(
    "a backoff failed",
    "error",
    (*JOB, "backoff", "error"),
    "your function raised, or gave no seconds, with the traceback: the job waits as with `exponential()`",
)
HOOK_FAILED = Event(
    "a hook failed", "error", (*JOB, "hook", "error"), "your function raised, with the traceback: nothing else follows"
)
HANDLER_HANGS = Event(
    "a handler runs on", "error", ("id", "tube"), "after its timeout, in a thread: its slot is occupied"
)
ALL_HANG = Event(
    "all slots are occupied by handlers that hang",
    "error",
    ("slots", "ends_in_s"),
    "no jobs are taken, and in so many seconds the worker ends",
)
WORKER_FAILED = Event("the worker failed", "error", (), "a bug in Beanpole, with the traceback: the job goes back")
PROCESS_ENDED = Event(
    "worker process ended",
    "info",
    ("number", "pid", "code", "in_s"),
    "with `--processes`: in good order; another begins in so many seconds",
)
PROCESS_FAILED = Event(
    "worker process failed",
    "warning",
    ("number", "pid", "code", "signal", "in_s"),
    "the same, by an exit code or a signal that says that something is wrong",
)

EVENTS = tuple(each for each in list(globals().values()) if isinstance(each, Event))
"""All of them, in the order of a worker's life."""
