"""Django's tasks: those of Django 6, or else those of the package django-tasks, which has the same interface."""

from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any

NAME = "django.tasks" if find_spec("django.tasks") else "django_tasks"

tasks = import_module(NAME)
base = import_module(f"{NAME}.base")
signals = import_module(f"{NAME}.signals")
import_module(f"{NAME}.checks")  # registers what asks the backends
BaseTaskBackend = import_module(f"{NAME}.backends.base").BaseTaskBackend

_exceptions = import_module(f"{NAME}.exceptions")
InvalidTask = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError


def result_of(  # noqa: PLR0913, PLR0917 - what a result is made of
    task: Any,  # noqa: ANN401 - of either package
    id: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    backend: str,
    enqueued_at: datetime,
) -> Any:  # noqa: ANN401 - see above
    """What Django knows of a task that waits. Raises TypeError or ValueError for what JSON can't say."""
    return base.TaskResult(
        task=task,
        id=id,
        status=base.TaskResultStatus.READY,
        enqueued_at=enqueued_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
    )
