"""Fingerprints of what numbers look like, and which change of a rule can't repeat a number.

A rule makes different text of different (cycle, counter) pairs. Two versions of a rule may make the same text of
different pairs; then a pair that only moves forward is not enough. So the row of a counter keeps a *record*: the
fingerprints that its numbers have had, the present one last. A rule with another fingerprint is refused, unless its
numbers have a fixed length that none had before, or an operator accepts it. An older fingerprint may come back if the
cycle never changed: its pairs have only moved forward since.

A record is ``digest.length.cycle`` for each fingerprint, separated by spaces. The length is 0 if it is not fixed.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from beanpole_ids import limits
from beanpole_ids.errors import RuleError

ZONES_MAX = 64  # time zones whose changes of local time are remembered

OTHER_NODE = "-"
"""The cycle of a fingerprint that another node has."""

ZONE_FROM_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ZONE_UNTIL_S = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
ZONE_STEP_S = 5 * 86_400
"""In so short a time no zone changes twice."""


class Fingerprint(NamedTuple):
    """What the numbers of a rule look like."""

    digest: str = ""
    """Names everything that shapes them; empty if nothing is known, and nothing checked."""

    length: int = 0
    """Characters of each number, 0 if it is not always the same."""

    cycle: str = ""
    """Names when counting starts again."""

    accept: str = ""
    """The digest that an operator has accepted."""


def digest(*parts: object) -> str:
    """Return a short name of some strings, numbers and lists."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=6).hexdigest()


@lru_cache(ZONES_MAX)
def zone_shape(zone: tzinfo) -> tuple[tuple[int, int], ...]:
    """Return how a zone's local time runs: when it changes, and its seconds from UTC since then.

    Its name is not enough: that of the machine can change, and so can what the law says of any.
    """

    def offset_s(time_s: int) -> int:
        offset = datetime.fromtimestamp(time_s, zone).utcoffset()
        return int(offset.total_seconds()) if offset else 0

    before = offset_s(ZONE_FROM_S)
    shape = [(ZONE_FROM_S, before)]
    for step_s in range(ZONE_FROM_S, ZONE_UNTIL_S, ZONE_STEP_S):
        low, high = step_s, step_s + ZONE_STEP_S
        after = offset_s(high)
        if after == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset_s(middle) == before else (low, middle)
        shape.append((high, after))
        before = after
    return tuple(shape)


def parse(record: str) -> list[Fingerprint]:
    """Return the fingerprints of a record."""
    found = (each.split(".") for each in record.split())
    return [Fingerprint(name, int(length), cycle) for name, length, cycle in found]


def render(fingerprints: Iterable[Fingerprint]) -> str:
    """Return the record of some fingerprints."""
    return " ".join(f"{each.digest}.{each.length}.{each.cycle}" for each in fingerprints)


def merged(mine: Iterable[str], others: Iterable[str]) -> str:
    """Return the record of a counter that goes on from some records, while other nodes have others."""
    known = {each.digest: each._replace(cycle=OTHER_NODE) for record in others for each in parse(record)}
    for record in mine:
        for each in parse(record):
            known.pop(each.digest, None)  # the present one is last
            known[each.digest] = each
    return render(known.values())


@lru_cache(limits.COMMON_CACHED)
def followed(record: str, new: Fingerprint) -> str:
    """Return the record of a counter whose numbers have a new fingerprint from now on.

    Raises RuleError: they could be numbers that it has given.
    """
    if not new.digest:
        return record
    known = parse(record)
    mine = new._replace(accept="")
    if known and known[-1] == mine:
        return record
    others = [each for each in known if each.digest != new.digest]
    if new.accept != new.digest:
        lengths = {each.length for each in others}
        own = [each for each in known if each.cycle != OTHER_NODE]
        is_back = any(each.digest == new.digest for each in own)
        is_longer = new.length and not lengths & {0, new.length}
        if (lengths and not is_longer) or (is_back and any(each.cycle != new.cycle for each in own)):
            raise RuleError(
                "its text, cycle or time zone was another one, and numbers could repeat; give it another name, or make "
                f'its numbers longer than any before, or if you are sure write accept = "{new.digest}"'
            )
    after = render([*others, mine])
    if len(after) > limits.RECORD_MAX:
        raise RuleError("it has changed too often to be compared with all that it was; give it another name")
    return after
