"""Fingerprints of what numbers look like, and which change of a rule can't repeat a number.

A rule makes different text of different (cycle, counter) pairs. Two versions of a rule may make the same text of
different pairs; then a pair that only moves forward is not enough. So the row of a counter keeps a *record*: the digest
of the rule that made its last numbers, their length, and the lengths of all before. A rule with another digest is
refused, unless its numbers have a fixed length that none had before, or an operator accepts it.

A record is ``.length`` for each of those before, and then ``digest.length``; between them may stand what the numbers of
other nodes look like. A length that is not fixed is 0. What follows a second dot is of an earlier version.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from beanpole_ids import limits
from beanpole_ids.errors import RuleError

ZONES_MAX = 64  # time zones whose changes of local time are remembered
ZONE_FROM_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ZONE_UNTIL_S = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
ZONE_STEP_S = 5 * 86_400  # in so short a time no zone changes twice


class Fingerprint(NamedTuple):
    """What the numbers of a rule look like."""

    digest: str = ""  # of everything that shapes them; empty if nothing is known, and nothing checked
    length: int = 0  # characters of each number, 0 if it is not always the same
    accept: str = ""  # the digest that an operator has accepted


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


def merged(mine: Sequence[str], others: Iterable[str]) -> str:
    """Return the record of a counter that goes on from the last of some records, while other nodes have others."""
    own = [record.split() for record in mine if record]
    before = [f".{record[-1].split('.')[1]}" for record in own if record[-1] != own[-1][-1]]
    presents = {record[-1] for record in own}
    foreign = (look for record in others for look in record.split() if look not in presents)
    return " ".join(dict.fromkeys([*foreign, *before, *(own[-1] if own else [])]))


@lru_cache(limits.COMMON_CACHED)
def followed(record: str, new: Fingerprint) -> str:
    """Return the record of a counter whose numbers have a new fingerprint from now on.

    Raises RuleError: they could be numbers that it has given.
    """
    looks = [look.split(".") for look in record.split()]
    if not new.digest or (looks and looks[-1][0] == new.digest):
        return record
    # What another node's numbers look like already is no reason against it, but a length of our own is.
    lengths = {int(length) for digest, length, *earlier in looks if digest != new.digest or earlier}
    if lengths and new.accept != new.digest and (not new.length or lengths & {0, new.length}):
        raise RuleError(
            "its text, cycle or time zone was another one, and numbers could repeat; give it another name, or make "
            f'its numbers longer than any before, or if you are sure write accept = "{new.digest}"'
        )
    after = " ".join([*(f".{each}" for each in sorted(lengths)), f"{new.digest}.{new.length}"])
    if len(after) > limits.RECORD_MAX:
        raise RuleError("it has changed too often to be compared with all that it was; give it another name")
    return after
