"""What `manage.py check` says of a backend: of its settings always, of its inbox where it may ask the database."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core import checks
from django.db import connections

from beanpole.django.interface import tasks
from beanpole.django.running import HANDLING, worker_of
from beanpole.errors import ArgumentError

if TYPE_CHECKING:
    from beanpole.django.backend import BeanpoleBackend

OPTIONS = {"url", "database", "inbox", "patience", *HANDLING}

MAY_PUT = """
select has_schema_privilege(pronamespace, 'usage') and has_function_privilege(pg_proc.oid, 'execute'), current_user
from pg_proc join pg_namespace on pg_namespace.oid = pronamespace where nspname = 'beanpole' and proname = 'put'
"""


def check_settings(backend: "BeanpoleBackend") -> Iterator[checks.CheckMessage]:
    """What is wrong without asking anybody."""
    where = f"TASKS[{backend.alias!r}]"
    if unknown := set(backend.options) - OPTIONS:
        known = ", ".join(sorted(OPTIONS))
        yield checks.Error(f"{where}: OPTIONS has no {', '.join(sorted(unknown))}", hint=known, id="beanpole.E001")
    try:
        worker_of(backend, backend.queues or ["default"])
    except (ArgumentError, TypeError) as error:
        yield checks.Error(f"{where}: {error}", id="beanpole.E002")
    if backend.database is not None and backend.database not in settings.DATABASES:
        yield checks.Error(f"{where}: DATABASES has no {backend.database!r}", id="beanpole.E003")
    elif backend.has_inbox and (backend.database is None or connections[backend.database].vendor != "postgresql"):
        yield checks.Error(f"{where}: an inbox is in a database of PostgreSQL", id="beanpole.E004")


@checks.register(checks.Tags.database)  # type: ignore[untyped-decorator] # Django has no types
def check_inboxes(
    databases: Sequence[str] | None = None,
    **_kwargs: Any,  # noqa: ANN401 - Django passes what it likes
) -> Iterator[checks.CheckMessage]:
    """Whether there are the inboxes into which tasks are put, in the databases that Django lets a check ask."""
    for backend in tasks.task_backends.all():
        if not getattr(backend, "has_inbox", False) or backend.database not in (databases or ()):
            continue
        if connections[backend.database].vendor != "postgresql":
            continue
        where = f"the database {backend.database!r}"
        with connections[backend.database].cursor() as cursor:
            cursor.execute(MAY_PUT)
            found = cursor.fetchone()
        if found is None:
            hint = "beanpole cluster init URL --inbox"
            yield checks.Error(f"{where} has no function beanpole.put", hint=hint, id="beanpole.E005")
        elif not found[0]:
            hint = (
                f"grant usage on schema beanpole to {found[1]}; grant execute on function beanpole.put to {found[1]};"
            )
            yield checks.Error(f"{where} lets {found[1]} not execute beanpole.put", hint=hint, id="beanpole.E006")
