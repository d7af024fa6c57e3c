"""The backend of Django's tasks: an enqueued task is a job once the transaction has committed, and not before.

With an inbox, the transaction itself puts the job. With an outbox it inserts a row, which a relay puts. Else our client
puts, when Django says that the transaction has committed.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from django.core.checks import CheckMessage
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils import timezone

from beanpole.client import Address, Login
from beanpole.client.base import PATIENCE_S, login_for
from beanpole.client.login import VARIABLES
from beanpole.django import checking
from beanpole.django.interface import BaseTaskBackend, InvalidTask, result_of, signals
from beanpole.errors import ArgumentError, UnsupportedError
from beanpole.limits import PRI_MAX
from beanpole.protocol import wire
from beanpole.relay import table
from beanpole.worker.function import Connections

DEFAULT_PRI = 65_536
"""The pri of a task of the priority 0, which is that of a job without one."""

PRI_STEP = 256
"""What a task's priority counts as a pri, where less is more urgent: 100 is 39936, and -100 is 91136."""

STATEMENTS = {
    "inbox": "select beanpole.put(%s, %s, pri => %s, at => to_timestamp(%s))",
    "outbox": f"insert into {table.NAME} (tube, body, pri, at) values (%s, %s, %s, %s)",  # noqa: S608 - ours
}
"""What a transaction says, by the option: with tube, body, pri, and the moment in seconds since 1970, or null."""


class BeanpoleBackend(BaseTaskBackend):  # type: ignore[misc] # Django has no types
    """A backend for ``TASKS``. Its queues are tubes; what its OPTIONS are is in docs/frameworks.md."""

    supports_defer = True
    supports_async_task = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.url: str | None = self.options.get("url")
        given = {name: self.options[name] for name in VARIABLES if name in self.options}
        self.login: Login | None = Login(**given) if given else None
        """How its clients show who they are; None: as the variables say, if those name the server."""
        self.database: str | None = self.options.get("database", DEFAULT_DB_ALIAS)
        """Whose transaction a task belongs to; None: it is put at once."""
        self.way: str | None = next(filter(self.options.get, STATEMENTS), None)
        """``inbox`` or ``outbox``; None: our client puts."""

    def validate_task(self, task: Any) -> None:  # noqa: ANN401 - of either package
        """Says whether a task can be put. Raises InvalidTask."""
        super().validate_task(task)
        try:
            wire.tube_name(task.queue_name)
        except ArgumentError as error:
            raise InvalidTask(f"Queue '{task.queue_name}' is no tube: {error}") from None
        if delay_of(task) > PRI_MAX:
            raise InvalidTask(f"run_after must be within {PRI_MAX} seconds from now, some 136 years")

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - see above
        """Puts a job for the task when the transaction commits.

        Raises TypeError or ValueError for arguments that JSON can't say, and what putting raises: with an inbox or an
        outbox, and without a transaction, from here; else from the commit.
        """
        self.validate_task(task)
        result = result_of(task, uuid4().hex, args, kwargs, self.alias, timezone.now())
        body = encode(result)
        if self.way is not None:
            at_s = None if task.run_after is None else task.run_after.timestamp()
            with connections[self.database].cursor() as cursor:
                cursor.execute(STATEMENTS[self.way], [task.queue_name, body, pri_of(task), at_s])
            self._tell(result)
        elif self.database is None:
            self._put(result, body)
        else:
            transaction.on_commit(functools.partial(self._put, result, body), using=self.database)
        return result

    def check(self, **_kwargs: Any) -> Iterable[CheckMessage]:  # noqa: ANN401 - Django passes what it likes
        """Says what is wrong with the settings."""
        return checking.check_settings(self)

    def _put(self, result: Any, body: bytes) -> None:  # noqa: ANN401 - see above
        task = result.task
        pool = connections_to(self.url, self.options.get("patience", PATIENCE_S), self.login).pool()
        put = functools.partial(pool.put, body, tube=task.queue_name, priority=pri_of(task), delay=delay_of(task))
        try:
            put(retry=True)  # a reply that is lost does no harm then
        except UnsupportedError:
            put()
        self._tell(result)

    def _tell(self, result: Any) -> None:  # noqa: ANN401 - see above
        signals.task_enqueued.send(type(self), task_result=result)


@functools.cache
def connections_to(url: str | None, patience: float | None, login: Login | None) -> Connections:
    """The connections of this process: Django makes a backend for each thread, and for each request under ASGI."""
    address = Address.default() if url is None else Address.of(url)
    server = (address, login_for(url, login))
    return Connections(lambda: server, patience=patience)


def delay_of(task: Any) -> float:  # noqa: ANN401 - see above
    return 0.0 if task.run_after is None else max(0.0, task.run_after.timestamp() - timezone.now().timestamp())


def pri_of(task: Any) -> int:  # noqa: ANN401 - see above
    return int(DEFAULT_PRI - PRI_STEP * task.priority)


def encode(result: Any) -> bytes:  # noqa: ANN401 - see above
    """The body of a job. Raises TypeError or ValueError."""
    said = {
        "task": result.task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "id": result.id,
        "enqueued_at": result.enqueued_at.isoformat(),
    }
    return json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
