"""Which seeds the random tests run: the same few for each commit, and many fresh ones where there is time.

`SEEDS_FROM=n` says where they begin, `SEEDS_TIMES=n` how many times as many there are; `make test-all` prints what it
takes. A failure prints its own seed, and the variable that runs that one alone. Mistakes of a commit are found by few
seeds; what takes hundreds is found at night.
"""

import os

FROM = int(os.environ.get("SEEDS_FROM", "0"))
TIMES = int(os.environ.get("SEEDS_TIMES", "1"))


def part_of(count: int, part: int) -> int:
    """Return how many of `count` seeds or examples a test has now: one of so many for a commit."""
    return count if TIMES > 1 else -(-count // part)


def seeds(count: int, only: str) -> range:
    """Return the seeds of a test that has `count` of them, or the one that the variable `only` says.

    A commit has a third of them.
    """
    one = os.environ.get(only)
    if one is not None:
        return range(int(one), int(one) + 1)
    return range(FROM, FROM + part_of(count, 3) * TIMES)


def fixed(count: int) -> range:
    """Return the seeds of a test that takes long for each, always the same: a sixth of them for a commit."""
    return range(part_of(count, 6))
