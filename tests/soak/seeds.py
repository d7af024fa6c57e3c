"""What the soaks of a queue share: how long they run, and seeds, so that what fails can be run again."""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_DEFAULT = 600.0
SEED_MAX = 1 << 30


def say(text: str) -> None:
    """Print a line at once, so that it is there whatever comes next."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows what every soak is told."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS_DEFAULT, help="how long (%(default)s)")
    parser.add_argument("--seed", type=int, help="run this seed again, and no other")
    return parser


def first_seed(options: argparse.Namespace) -> int:
    """Return the seed that was asked for, or a fresh one, and print it."""
    seed = random.SystemRandom().randrange(SEED_MAX) if options.seed is None else int(options.seed)
    say(f"seed {seed}")
    return seed


@contextmanager
def named(soak: str, seed: int) -> Iterator[None]:
    """Say which seed it was that failed."""
    try:
        yield
    except BaseException:
        say(f"seed {seed} fails; again: python -m tests.soak.{soak} --seed {seed}")
        raise


def seeds(options: argparse.Namespace) -> Iterator[int]:
    """Return one seed after the other for as long as the soak runs, or only the one that was asked for."""
    end_at = time.monotonic() + options.seconds
    seed = first_seed(options)
    yield seed
    while options.seed is None and time.monotonic() < end_at:
        seed += 1
        yield seed
