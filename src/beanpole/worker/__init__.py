"""The worker: takes jobs from any server that speaks the beanstalkd protocol, and calls handlers for them.

Read bottom-up: `events` and `log` (what is logged), `policy` (what comes of a failed attempt), `handler` (handlers, and
what goes in and out of them), `function` (handlers that can be put as jobs), `schedule` (when the server puts some),
`calls` and `executor` (how and where handlers run, with middleware around them), `client` (a connection), `attempt` (a
handler runs and its job stays reserved), `ending` (what the server hears of it), `metrics`, `slot` (one connection, one
job at a time), `worker`.
"""

from beanpole.worker.function import JobFunction, current_task
from beanpole.worker.handler import Counters, Outcome, Task
from beanpole.worker.policy import Bury, Dead, Retry, exponential
from beanpole.worker.worker import Worker

__all__ = [
    "Bury",
    "Counters",
    "Dead",
    "JobFunction",
    "Outcome",
    "Retry",
    "Task",
    "Worker",
    "current_task",
    "exponential",
]
