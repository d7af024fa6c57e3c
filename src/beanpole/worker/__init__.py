"""The worker: takes jobs from any server that speaks the beanstalkd protocol, and calls handlers for them.

Read bottom-up: `policy` (what comes of a failed attempt), `task` and `handler` (what goes in and out of a handler),
`thread`, `process` and `executor` (where handlers run), `client` (a connection), `attempt` (a handler runs and its job
stays reserved), `slot` (one connection, one job at a time), `worker`.
"""

from beanpole.worker.policy import Bury, Retry, exponential
from beanpole.worker.task import Counters, Outcome, Task
from beanpole.worker.worker import Worker

__all__ = ["Bury", "Counters", "Outcome", "Retry", "Task", "Worker", "exponential"]
