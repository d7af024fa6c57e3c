"""Several shards' statistics and lists as one: what a router makes of the texts and frames that they answer with.

The texts are the YAML of the protocol: a mapping, a list of mappings, or a mapping whose last key has such a list. Keys
and values stay bytes. Counts are added; FOLDS has the keys for which a sum would mean nothing.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, NamedTuple

from beanpole.front.gather import frames_of, number_of, words_of
from beanpole.protocol.commands import Verb
from beanpole.protocol.limits import FRAMES_MAX

Values = Sequence[bytes]
Item = Mapping[bytes, bytes]

NUMBER = re.compile(rb"\d+(\.\d+)?")
NUMBERS = re.compile(rb"\d+(\.\d+)?( \d+(\.\d+)?)*")  # one, or the line of a histogram


def total(values: Values) -> bytes:
    """Return the sum of numbers, place by place where a line has several; of other texts each different one."""
    if all(map(bytes.isdigit, values)):  # most are whole: a page has thousands
        return b"%d" % sum(map(int, values))
    if not all(map(NUMBERS.fullmatch, values)):
        return each(values)
    columns = zip_longest(*[value.decode().split(" ") for value in values], fillvalue="0")
    return " ".join([str(sum(map(Decimal, column))) for column in columns]).encode()


def each(values: Values) -> bytes:
    return b", ".join(dict.fromkeys(values))


def first(values: Values) -> bytes:
    return values[0]


def size_of(value: bytes) -> tuple[Decimal, bytes]:
    """Return by what values are compared: numbers by their size, words as they are written."""
    return Decimal(value.decode()) if NUMBER.fullmatch(value) else Decimal(0), value


def least(values: Values) -> bytes:
    return min(values, key=size_of)


def greatest(values: Values) -> bytes:
    return max(values, key=size_of)


FOLDS: Mapping[bytes, Callable[[Values], bytes]] = {
    **dict.fromkeys((b"name", b"tube", b"line"), first),
    **dict.fromkeys((b"shard", b"shards"), each),
    **dict.fromkeys((b"max-job-size", b"binlog-oldest-index", b"log-free-bytes", b"shard-ids-left"), least),
    **dict.fromkeys((b"link-map-epoch", b"next", b"first-died"), least),
    **dict.fromkeys((b"binlog-current-index", b"binlog-max-size", b"draining", b"log-full"), greatest),
    **dict.fromkeys((b"pause", b"pause-time-left", b"oldest-ready", b"breaker-closed"), greatest),
    **dict.fromkeys((b"weight", b"next-age", b"closed", b"last", b"last-died"), greatest),
}
"""What becomes of several values of a key that is no count."""


def merged(mappings: Iterable[Item]) -> dict[bytes, bytes]:
    """Return one mapping for several, the keys in the order in which they come."""
    values: dict[bytes, list[bytes]] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            values.setdefault(key, []).append(value)
    return {key: FOLDS.get(key, total)(found) for key, found in values.items()}


# --- Texts ------------------------------------------------------------------------------------------------------------


def split_items(text: bytes) -> list[bytes]:
    """Return the items of a list as they stand there, without what is in front of it."""
    return [b"- " + item for item in re.split(rb"^- ", text, flags=re.MULTILINE)[1:]]


def read(text: bytes) -> tuple[dict[bytes, bytes], list[dict[bytes, bytes]]]:
    """Return the mapping that a text begins with, and the list behind it; each may be empty."""
    head, *items = re.split(rb"^- ", text.removeprefix(b"---\n"), flags=re.MULTILINE)
    pairs = [[line.strip().partition(b":") for line in part.splitlines()] for part in (head, *items)]
    first, *rest = [{key: value[1:] for key, _, value in part} for part in pairs]
    return first, rest


def write(head: Item, items: Iterable[Item] = ()) -> bytes:
    """Return the reply with such a text."""
    return ok(lines(head, b"") + b"".join([b"- " + lines(item, b"  ").removeprefix(b"  ") for item in items]))


def lines(mapping: Item, indent: bytes) -> bytes:
    return b"".join([indent + (b"%b: %b" % pair).rstrip() + b"\n" for pair in mapping.items()])


def ok(text: bytes) -> bytes:
    return b"OK %d\r\n---\n%b\r\n" % (4 + len(text), text)


class List(NamedTuple):
    """What the items of a list are."""

    keys: tuple[bytes, ...]  # those that say the same of these are one
    order: tuple[bytes, ...] = ()  # by which keys they are sorted, the greatest first; pages by the one above
    full: int = (
        0  # items from which a page may have more behind it, or the limit if that is less; 0: there are no pages
    )
    adds: bool = True  # whether what is one has the sums; else it is as the first of them says


LISTS: Mapping[Verb, List] = {
    Verb.STATS_TUBES: List((b"name",), full=FRAMES_MAX),
    Verb.STATS_HISTOGRAMS: List((b"name",), full=FRAMES_MAX),
    Verb.LIST_RULES: List((b"pattern",), full=1, adds=False),  # pages end where they have so many bytes
    Verb.STATS_GROUPS: List((b"group",), (b"ready", b"reserved", b"group")),
    Verb.STATS_FAILURES: List((b"tube", b"error"), (b"count", b"last")),
}
GROUPS_BY_HELD = List((b"group",), (b"reserved", b"ready", b"group"))


def merged_lists(listed: List, lists: Sequence[Sequence[Item]], limit: int) -> list[dict[bytes, bytes]]:
    """Return the items of several lists as one list; behind the end of a full page its shard may have more."""
    alike: dict[tuple[bytes | None, ...], list[Item]] = {}
    for item in [item for items in lists for item in items]:
        alike.setdefault(tuple([item.get(key) for key in listed.keys]), []).append(item)
    found = [merged(items if listed.adds else items[:1]) for items in alike.values()]
    if listed.full:
        found.sort(key=lambda item: item[listed.keys[0]])
    else:
        found.sort(key=lambda item: [size_of(item[key]) for key in listed.order], reverse=True)
    ends = [items[-1][listed.keys[0]] for items in lists if 0 < min(listed.full, limit) <= len(items)]
    return [item for item in found if not ends or item[listed.keys[0]] <= min(ends)][:limit]


# --- Frames -----------------------------------------------------------------------------------------------------------


def fields_of(frame: bytes) -> dict[bytes, bytes]:
    """Return what the line of a frame says."""
    return {key: value for key, _, value in [word.partition(b"=") for word in words_of(frame)[3:]]}


def rank(frame: bytes) -> tuple[float, int, int]:
    """Return by what first jobs are compared: when their delay ends, by priority, by id."""
    fields = fields_of(frame)
    return float(fields.get(b"left", b"0")), int(fields[b"pri"]), number_of(frame)


def fires_at(frame: bytes) -> float:
    """Return by what schedules are compared: when they fire next."""
    fields = fields_of(frame)
    return float(fields.get(b"due", fields[b"next"])) or float("inf")


def first_frames(replies: Sequence[bytes], key: Callable[[bytes], Any], limit: int) -> bytes:
    """Return the first frames of several replies, each of which keeps its order."""
    frames = list(heapq.merge(*map(frames_of, replies), key=key))[:limit]
    return b"%b %d\r\n%b" % (words_of(replies[0])[0], len(frames), b"".join(frames))


def schedules_by_name(replies: Sequence[bytes], limit: int) -> bytes:
    """Return the page that several pages of schedules make."""
    ends = [words_of(reply)[2].removeprefix(b"next=") for reply in replies if len(words_of(reply)) > 2]
    frames = sorted([frame for reply in replies for frame in frames_of(reply)], key=lambda frame: words_of(frame)[1])
    shown = [frame for frame in frames if not ends or words_of(frame)[1] <= min(ends)][:limit]
    more = b" next=" + words_of(shown[-1])[1] if ends or len(shown) < len(frames) else b""
    return b"SCHEDULES %d%b\r\n%b" % (len(shown), more, b"".join(shown))
