"""What `manage.py check` says: of the settings always, of inbox and outbox where it may ask their database."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from beanpole.client.login import VARIABLES
from beanpole.django.interface import tasks
from beanpole.django.running import HANDLING, worker_of
from beanpole.errors import ArgumentError
from beanpole.relay import table

if TYPE_CHECKING:
    from beanpole.django.backend import BeanpoleBackend

OPTIONS = {"url", "database", "inbox", "outbox", "patience", *VARIABLES, *HANDLING}

VENDORS = {
    "inbox": {"postgresql": "PostgreSQL"},
    "outbox": {"postgresql": "PostgreSQL", "mysql": "MariaDB or MySQL", "sqlite": "SQLite"},
}
"""The databases that can have one, as Django and as people call them."""

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
    elif backend.way and (backend.database is None or connections[backend.database].vendor not in VENDORS[backend.way]):
        of = " or ".join(VENDORS[backend.way].values())
        yield checks.Error(f"{where}: an {backend.way} is in a database of {of}", id="beanpole.E004")
    if backend.way == "outbox" and not apps.is_installed("beanpole.django"):
        hint = "INSTALLED_APPS = [..., 'beanpole.django']"
        yield checks.Error(f"{where}: the table of an outbox needs the application", hint=hint, id="beanpole.E007")
    if backend.options.get("inbox") and backend.options.get("outbox"):
        yield checks.Error(f"{where}: only one of inbox and outbox can be", id="beanpole.E008")


@checks.register(checks.Tags.database)  # type: ignore[untyped-decorator] # Django has no types
def check_databases(
    databases: Sequence[str] | None = None,
    **_kwargs: Any,  # noqa: ANN401 - Django passes what it likes
) -> Iterator[checks.CheckMessage]:
    """Whether there is that into which tasks are put, in the databases that Django lets a check ask."""
    for backend in tasks.task_backends.all():
        way = getattr(backend, "way", None)
        if way is None or backend.database not in (databases or ()):
            continue
        if connections[backend.database].vendor in VENDORS[way]:
            yield from (check_inbox if way == "inbox" else check_outbox)(backend.database)


def check_inbox(database: str) -> Iterator[checks.CheckMessage]:
    """Whether it is there, and this role may put."""
    with connections[database].cursor() as cursor:
        cursor.execute(MAY_PUT)
        found = cursor.fetchone()
    if found is None:
        hint = "beanpole cluster init URL --inbox"
        yield checks.Error(f"the database {database!r} has no function beanpole.put", hint=hint, id="beanpole.E005")
    elif not found[0]:
        hint = f"grant usage on schema beanpole to {found[1]}; grant execute on function beanpole.put to {found[1]};"
        text = f"the database {database!r} lets {found[1]} not execute beanpole.put"
        yield checks.Error(text, hint=hint, id="beanpole.E006")


def check_outbox(database: str) -> Iterator[checks.CheckMessage]:
    """Whether the table is there. A warning, as ``migrate`` asks before it makes it, and none where it never ran."""
    connection = connections[database]
    if MigrationRecorder(connection).has_table() and table.NAME not in connection.introspection.table_names():
        hint = f"python manage.py migrate beanpole --database {database}"
        yield checks.Warning(f"the database {database!r} has no table {table.NAME}", hint=hint, id="beanpole.W009")
