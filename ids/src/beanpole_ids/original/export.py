"""The way back: SQL for the table of the original, from where its counters go on above ours.

The original loads a row and adds its step before each number. So the row of each of its nodes has the first
value of that node that is not below what any node of ours has reserved. Pure: no I/O, and the time is an argument.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping

from beanpole_ids.hand import Mark
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Key

NAME_CHARACTERS_MAX = 64  # characters that a name has in its table
COUNTER_MAX = 2**31 - 1  # the largest number that it has; above it, its numbers become negative
AHEAD = 10_000  # steps that it saves ahead at the most: its largest `batch_save`
HEAD = """\
-- Counters of the ID service, for lxyfirst/id_server with id_step {step}. Load it into its database while neither runs.
START TRANSACTION;
"""


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
