"""What the ID service costs: a table of ratios to a C echo that runs in turn with it.

Run with `make bench-ids`, or `python -m benchmarks ROW...` for some rows. `--theirs PATH` measures the service of
another checkout, built there, in turn with ours: then there are also ratios of ours to it. The exit code is 1 if a
figure is not as asked. Ratios of CPU bear other work on the machine; rates and latencies need it idle.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.programs import compiled
from benchmarks.rows import ROWS, Bench, Figure


def line(figure: Figure) -> str:
    """How a figure is printed."""
    asked = f"≤ {figure.at_most:.3g}" if figure.at_most else f"≥ {figure.at_least:.3g}" if figure.at_least else ""
    mark = "" if figure.is_met else "  MISSED"
    return f"{figure.what:56} {figure.value:9.3g} {figure.unit:4} {asked:>7}  {figure.details}{mark}\n"


def main() -> int:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; all without one")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts (default 5)")
    parser.add_argument("--theirs", type=Path, metavar="PATH", help="another checkout, with its .venv")
    chosen = parser.parse_args()
    if unknown := [each for each in chosen.rows if each not in ROWS]:
        parser.error(f"there is no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    for program in ("echo", "load"):
        compiled(program)
    missed = 0
    sys.stdout.write(f"{'':56} {'measured':>14} {'asked':>7}\n")
    for name in chosen.rows or ROWS:
        with ExitStack() as stack:
            theirs = chosen.theirs.resolve() if chosen.theirs else None
            for figure in ROWS[name](Bench(chosen.seconds, chosen.rounds, theirs, stack)):
                missed += not figure.is_met
                sys.stdout.write(line(figure))
                sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
