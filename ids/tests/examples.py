"""How many examples Hypothesis makes: a third of them for a commit, all where there is time (`make test-all`)."""

import os

IS_FOR_A_COMMIT = os.environ.get("SEEDS_TIMES", "1") == "1"


def examples(count: int) -> int:
    """Return how many of `count` a test has now."""
    return -(-count // 3) if IS_FOR_A_COMMIT else count
