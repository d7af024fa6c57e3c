"""The numbers of a shard, and the ids of jobs that they stand for: number N has those from N * 2^43 + 1 on.

A shard has one number, and further ones behind it when its ids run out. They rise, so that a greater id is a later one.
"""

from beanpole.limits import SHARD_ID_BITS, SHARDS_MAX

NUMBERS_MAX = 4
"""Numbers of a shard: 400 days of a million puts a second."""

IDS_SPARED = 2**21
"""The last ids of a number, which no job gets: a turn may give many, and a leader pass over many, before anybody looks.

They are more than `log.limits.JOB_IDS_SKIPPED`.
"""

IDS_LEFT_WARNING = 2**SHARD_ID_BITS // 10
"""Ids left at which a shard warns: nine tenths of a number's are used."""

NO_NUMBER = 0xFFFF
"""Stands in a log where a shard has fewer numbers than it may have."""


def first_id(number: int) -> int:
    """Return the first id of a number."""
    return (number << SHARD_ID_BITS) + 1


def end_id(number: int) -> int:
    """Return the id behind the last one of a number that a job may get."""
    return (number + 1 << SHARD_ID_BITS) - IDS_SPARED


def number_of(id: int) -> int:
    """Return the number of an id."""
    return (id - 1) >> SHARD_ID_BITS


def ids_left(numbers: tuple[int, ...], next_id: int) -> int:
    """Return how many ids a shard of these numbers has left, from the next one on."""
    return sum(max(end_id(each) - max(first_id(each), next_id), 0) for each in numbers)


def read_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a shard, as in ``3`` or ``3,17``. Raise ValueError with what is wrong."""
    words = text.split(",")
    if not all(each.isascii() and each.isdecimal() and int(each) < SHARDS_MAX for each in words):
        raise ValueError(f"{text!r} is no number of a shard: these are 0 to {SHARDS_MAX - 1}, as in 3 or 3,17")
    numbers = tuple(map(int, words))
    if list(numbers) != sorted(set(numbers)):
        raise ValueError(f"{text!r} does not rise: a further number of a shard is greater than those before")
    if len(numbers) > NUMBERS_MAX:
        raise ValueError(f"{text!r} are more than {NUMBERS_MAX} numbers")
    return numbers


def text_of(numbers: tuple[int, ...]) -> str:
    """Return the numbers of a shard as they are written; 0: it was given none."""
    return ",".join(map(str, numbers or (0,)))
