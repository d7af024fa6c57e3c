"""The table of the original, which is read and never written: from where our counters go on."""

import sqlalchemy as sa

from beanpole.ids.rules.sequence import Key, Mark

ORIGINAL = sa.table(
    "counter",
    *(sa.column(name) for name in ("node_offset", "counter", "update_time", "rule_name", "app_name")),
)


def is_in(connection: sa.Connection) -> bool:
    """Return whether a database has the table of the original, and not just one of that name."""
    inspector = sa.inspect(connection)
    wanted = {column.name for column in ORIGINAL.columns}
    exists = inspector.has_table(ORIGINAL.name)
    found = {each["name"] for each in inspector.get_columns(ORIGINAL.name)} if exists else set()
    connection.commit()
    return wanted <= found


def marks(connection: sa.Connection, key: Key, batch: int, step: int) -> list[Mark]:
    """Return marks above every number that a node of the original has saved, with a margin of a batch of its steps.

    It handed out numbers before it saved them, so those above may be used. Its step is unknown but at least the number
    of its nodes; its batch is unknown, so ours must not be smaller. Its database ignored the case of names and could
    cut them to 64 characters: several of our counters may go on from one of its rows, which is a gap and not a
    repetition.
    """

    def is_name(column: sa.ColumnElement[str], name: bytes) -> sa.ColumnElement[bool]:
        text = name.decode("utf-8", "replace")
        # The cast is for MySQL: it refuses to compare a column with a character that the column can't hold.
        return sa.func.lower(sa.cast(column, sa.Unicode)).in_([sa.func.lower(text), sa.func.lower(text[:64])])

    wanted = is_name(ORIGINAL.c.rule_name, key.rule) & is_name(ORIGINAL.c.app_name, key.app)
    rows = connection.execute(sa.select(ORIGINAL).where(wanted)).all()
    nodes = (connection.execute(sa.select(sa.func.max(ORIGINAL.c.node_offset))).scalar() or 0) + 1
    margin = batch * max(step, nodes)
    # Another kind than any rule has: the cycle that is current when it is loaded inherits the number.
    return [Mark(0, int(row.counter) + margin, int(row.update_time), "original") for row in rows]
