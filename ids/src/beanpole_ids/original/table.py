"""The table of the original, which is read and never written: from where our counters go on."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Key

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


def marks(connection: sa.Connection, wanted: Mapping[Key, int], step: int) -> dict[Key, list[Mark]]:
    """Return marks above every number that a node of the original has saved, with a margin of a batch of its steps.

    `wanted`: counters, and the batch of each. The original handed out numbers before it saved them, so those above may
    be used. Its step is unknown but at least the number of its nodes; its batch is unknown, so ours must not be
    smaller. Its database ignored the case of names and could cut them to 64 characters: several of our counters may go
    on from one of its rows, which is a gap and not a repetition.
    """
    keys = list(wanted)
    counters = sa.union_all(*(words(number, key) for number, key in enumerate(keys))).subquery()
    # The cast is for MySQL: it refuses to compare a column with a character that the column can't hold.
    rule, app = (sa.func.lower(sa.cast(each, sa.Unicode)) for each in (ORIGINAL.c.rule_name, ORIGINAL.c.app_name))
    apps = [sa.func.lower(text) for text in sorted({each for key in keys for each in spellings(key.app)})]
    rows = (
        sa.select(ORIGINAL.c.counter, ORIGINAL.c.update_time, rule.label("rule"), app.label("app"))
        .where(app.in_(apps))  # one reading of the table leaves few rows to compare with each counter
        .subquery()
    )
    is_rule = rows.c.rule.in_([counters.c.rule, counters.c.rule_cut])
    is_app = rows.c.app.in_([counters.c.app, counters.c.app_cut])
    found = sa.select(counters.c.number, rows.c.counter, rows.c.update_time).join_from(counters, rows, is_rule & is_app)
    nodes = (connection.execute(sa.select(sa.func.max(ORIGINAL.c.node_offset))).scalar() or 0) + 1
    made: dict[Key, list[Mark]] = {}
    for row in connection.execute(found):
        margin = wanted[keys[row.number]] * max(step, nodes)
        # Another kind than any rule has: the cycle that is current when it is loaded inherits the number.
        mark = Mark(0, int(row.counter) + margin, int(row.update_time), "original")
        made.setdefault(keys[row.number], []).append(mark)
    return made


def newer(found: list[Mark], ours: list[Mark]) -> list[Mark]:
    """Return the marks above which a counter goes on that the original has, and perhaps we: those of the last user.

    Somebody may have gone back to the original, and come again.
    """
    found = [mark for mark in found if all(mark.time_s > each.time_s for each in ours)]
    if not found or not ours:
        return found or ours
    reserved = max(each.reserved for each in [*found, *ours])
    return [Mark(0, reserved, max(mark.time_s for mark in found), found[0].kind, ours[-1].fingerprints)]


def words(number: int, key: Key) -> sa.Select[Any]:
    """Return a row with the names of a counter as the original's database compares them."""
    (rule, rule_cut), (app, app_cut) = spellings(key.rule), spellings(key.app)
    names = {"rule": rule, "rule_cut": rule_cut, "app": app, "app_cut": app_cut}
    return sa.select(
        sa.literal(number).label("number"), *(sa.func.lower(text).label(name) for name, text in names.items())
    )


def spellings(name: bytes) -> tuple[str, str]:
    """Return a name, and what may be left of it in the table."""
    text = name.decode("utf-8", "replace")
    return text, text[:64]
