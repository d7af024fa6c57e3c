"""The worker that runs tasks: a handler which finds the task that a body names, and calls it."""

import functools
import json
import os
import socket
from collections.abc import Callable, Iterable
from datetime import datetime
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from django.db import close_old_connections
from django.utils import timezone
from django.utils.module_loading import import_string

from beanpole.django.interface import base, result_of, signals, tasks
from beanpole.errors import ArgumentError
from beanpole.worker import Bury, Dead, Task, Worker

if TYPE_CHECKING:
    from beanpole.django.backend import BeanpoleBackend

HANDLING = ("max_attempts", "backoff", "timeout")
"""Options of the backend that are arguments of a handler."""


def worker(backend: str = "default", queues: Iterable[str] = (), concurrency: int | None = None) -> Worker:
    """A worker for the tasks of a backend: of its queues, or of some of them.

    It is a :class:`beanpole.Worker`: a program can give it more handlers, and ``beanpole worker`` runs it too. Raises
    ArgumentError.
    """
    found = tasks.task_backends[backend]
    if not hasattr(found, "way"):
        raise ArgumentError(f"the backend {backend!r} of TASKS is {type(found).__name__}, not Beanpole's")
    return worker_of(found, queues, concurrency)


def worker_of(backend: "BeanpoleBackend", queues: Iterable[str] = (), concurrency: int | None = None) -> Worker:
    """What :func:`worker` returns."""
    wanted = list(queues) or sorted(backend.queues)
    if not wanted:
        raise ArgumentError("QUEUES of the backend is empty, which allows any: name those that the worker is for")
    if unknown := set(wanted) - backend.queues if backend.queues else None:
        raise ArgumentError(f"QUEUES of the backend has no {', '.join(sorted(unknown))}")
    made = Worker(backend.url, login=backend.login)
    made.concurrency = made.concurrency if concurrency is None else concurrency
    made.middleware(with_connections)
    options = {name: backend.options[name] for name in HANDLING if name in backend.options}
    made.handler(*wanted, **options)(functools.partial(run, backend))
    return made


def with_connections(_task: Task[str], call: Callable[[], None]) -> None:
    """Closes connections to databases that are old or broken, as Django does around each request."""
    close_old_connections()
    try:
        call()
    finally:
        close_old_connections()


def run(backend: "BeanpoleBackend", job: Task[str]) -> None:
    """Calls the task of a job. What it raises is the worker's, which tries it again, or not."""
    result = decode(backend, job)
    now = timezone.now()
    change(result, status=base.TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
    # Who ran earlier attempts is not known; how many there were is.
    result.worker_ids.extend(["unknown"] * (job.attempt - 1) + [f"{socket.gethostname()}:{os.getpid()}"])
    signals.task_started.send(type(backend), task_result=result)
    context = (base.TaskContext(task_result=result),) if result.task.takes_context else ()
    try:
        result.task.call(*context, *result.args, **result.kwargs)
    except Exception as error:
        if isinstance(error, Bury | Dead) or job.attempt == job.max_attempts:
            name = f"{type(error).__module__}.{type(error).__qualname__}"
            said = "".join(format_exception(error))
            result.errors.append(base.TaskError(exception_class_path=name, traceback=said))
            finish(backend, result, base.TaskResultStatus.FAILED)
        raise
    finish(backend, result, base.TaskResultStatus.SUCCESSFUL)


def decode(backend: "BeanpoleBackend", job: Task[str]) -> Any:  # noqa: ANN401 - Django has no types
    """What a body says. Raises Dead if it is none of ours; ImportError or TypeError if this program lacks the task.

    That is a failure like others: while programs are replaced, a worker may be older than what puts.
    """
    try:
        said = json.loads(job.body)
        path, args, kwargs, given = str(said["task"]), list(said["args"]), dict(said["kwargs"]), str(said["id"])
        enqueued_at = datetime.fromisoformat(said["enqueued_at"])
    except (KeyError, TypeError, ValueError) as error:
        raise Dead(f"the body is no task of Django: {error!r}") from None
    task = import_string(path)
    if not isinstance(task, base.Task):
        raise TypeError(f"{path} is no task: a job can call nothing else")
    return result_of(
        task.using(queue_name=job.tube, backend=backend.alias), given, args, kwargs, backend.alias, enqueued_at
    )


def finish(backend: "BeanpoleBackend", result: Any, status: Any) -> None:  # noqa: ANN401 - see above
    change(result, status=status, finished_at=timezone.now())
    signals.task_finished.send(type(backend), task_result=result)


def change(result: Any, **values: object) -> None:  # noqa: ANN401 - see above
    """Sets fields of a result, which Django has made frozen for everybody but backends."""
    for name, value in values.items():
        object.__setattr__(result, name, value)
