"""`python -m tests.soak`: millions of numbers while everything fails, and the proof that none came twice."""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.databases import NAMES, DatabaseServers, is_there
from tests.soak.soak import run


def main() -> None:
    """Runs on each database that is there, and prints what happened; an assertion says what should not have."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--numbers", type=int, default=5_000_000, help="numbers for each database (%(default)s)")
    parser.add_argument("--events", type=int, default=100, help="events for each database (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3_600, help="at most, for each (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what happens and what is asked (%(default)s)")
    parser.add_argument("--database", choices=NAMES, action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    for name in options.database or filter(is_there, NAMES):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers = DatabaseServers()
            stack.callback(servers.stop)
            database = stack.enter_context(servers.database(name, folder))
            report = run(
                database, folder, options.seed,
                numbers=options.numbers, events=options.events, seconds=options.seconds,
            )  # fmt: skip
            sys.stdout.write(f"{report}\n\n")
            sys.stdout.flush()
            report.check()


if __name__ == "__main__":
    main()
