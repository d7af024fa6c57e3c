"""The table of the original: from where our counters go on, and the SQL for the way back. We never write it ourselves.

On the way back its counters go on above ours. The original loads a row and adds its step before each number. So the row
of each of its nodes gets the first value of that node that is not below what any node of ours has reserved.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from beanpole_ids.hand import Mark
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Key

ORIGINAL = sa.table(
    "counter",
    *(sa.column(name) for name in ("node_offset", "counter", "update_time", "rule_name", "app_name")),
)

NAME_CHARACTERS_MAX = 64  # characters that a name has in its table
COUNTER_MAX = 2**31 - 1  # the largest number that it has; above it, its numbers become negative
AHEAD = 10_000  # steps that it saves ahead at the most: its largest `batch_save`
HEAD = """\
-- Counters of the ID service, for lxyfirst/id_server with id_step {step}. Load it into its database while neither runs.
START TRANSACTION;
"""


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


# --- The way back -----------------------------------------------------------------------------------------------------


class NoWayBackError(Exception):
    """A counter that the original would begin again: it must not give numbers of it."""


def script(
    found: Mapping[Key, Mark], rules: Mapping[str, Rule], step: int, now_s: int
) -> tuple[str, dict[Key, NoWayBackError]]:
    """Return the SQL, and the counters that are not in it, with the reason."""
    rows: list[str] = []
    refused: dict[Key, NoWayBackError] = {}
    names = [folded(key) for key in found]
    seen = {name: names.count(name) for name in names} if len(set(names)) < len(names) else {}
    for key, mark in sorted(found.items()):
        try:
            if seen.get(folded(key), 1) == 1:
                rows += [f"({values})" for values in lines(key, mark, rules, step, now_s)]
            else:
                refused[key] = NoWayBackError("id_server does not tell it from another counter")
        except NoWayBackError as error:
            refused[key] = error
    text = HEAD.format(step=step)
    for first in range(0, len(rows), 500):
        text += "REPLACE INTO counter (node_offset, counter, update_time, rule_name, app_name) VALUES\n"
        text += ",\n".join(rows[first : first + 500]) + ";\n"
    return text + "COMMIT;\n", refused


def lines(key: Key, mark: Mark, rules: Mapping[str, Rule], step: int, now_s: int) -> Iterator[str]:
    """Return the values of a counter's rows, one for each node of the original.

    Raises NoWayBackError: the original would repeat its numbers.
    """
    names = [name_of(each) for each in key]
    rule = rules.get(names[0])
    if rule is None:
        raise NoWayBackError("its rule is not in the configuration")
    if rule.counting.layout_kind:
        raise NoWayBackError("its rule has a kind, which id_server has not")
    shape, end_s = rule.counting.shape, rule.cycle.end_s(max(mark.cycle_s, mark.time_s))
    is_over = end_s is not None and end_s <= now_s
    for node in range(step):
        first = shape.minimum + node
        counter = first + max(0, -(-(mark.reserved - first) // step)) * step
        if counter + step > shape.maximum and not is_over:
            raise NoWayBackError(f"no number is left up to {shape.maximum}, and id_server would begin again")
        if counter + step * AHEAD > COUNTER_MAX:
            raise NoWayBackError(f"it is at {mark.reserved}, and id_server counts to {COUNTER_MAX}")
        yield ", ".join([str(node), str(counter), str(mark.time_s), *map(literal, names)])


def name_of(name: bytes) -> str:
    """Return a name as text. Raises NoWayBackError: the table of the original can't hold it."""
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise NoWayBackError("its name is not UTF-8") from error
    if len(text) > NAME_CHARACTERS_MAX or any(ord(each) > 0xFFFF for each in text) or text.endswith("\\"):
        raise NoWayBackError("its name is one that id_server could never save")
    return text


def folded(key: Key) -> str:
    """Return what the original and its table compare of a name: neither case, nor accents, nor spaces behind it.

    The original joins the two names of a counter to one, so a rule ``a`` with ``b_c`` is a rule ``a_b`` with ``c``.
    """
    text = b"_".join(key).decode("utf-8", "replace")
    plain = (each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return "".join(plain).casefold().rstrip(" ")


def literal(text: str) -> str:
    """Return a string of SQL that means the same in each character set and mode."""
    if re.fullmatch(r"[\w.:@-]*", text, re.ASCII):
        return f"'{text}'"
    return f"CONVERT(X'{text.encode().hex()}' USING utf8)"
