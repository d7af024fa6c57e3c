"""The table of the outbox, as ``beanpole relay init`` makes it; one that is there stays."""

from typing import Any

from django.db import migrations

from beanpole.relay import table


def make(_apps: Any, editor: Any) -> None:  # noqa: ANN401 - Django has no types
    if editor.connection.vendor in table.WORDS:
        editor.execute(table.ddl(editor.connection.vendor, table.NAME))


def drop(_apps: Any, editor: Any) -> None:  # noqa: ANN401 - Django has no types
    editor.execute(f"drop table if exists {table.NAME}")


class Migration(migrations.Migration):  # type: ignore[misc] # Django has no types
    """Makes it in each database that is migrated."""

    initial = True
    dependencies = ()
    operations = (migrations.RunPython(make, drop, atomic=False),)  # MariaDB and MySQL make no table in a transaction
