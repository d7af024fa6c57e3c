"""What the next time of a cron expression costs, beside the libraries that the tests compare with.

Run with `python -m benchmarks.schedules`. Each row is an expression; each figure is the median over rounds, in turn, of
the processor time of one next time, over some that follow each other.
"""

import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from beanpole.schedules.document import parse

ROUNDS = 9
TIMES = 200
START = datetime(2026, 3, 20, 12, tzinfo=UTC)

CASES = [
    ("* * * * *", "UTC"),
    ("30 2 * * *", "UTC"),
    ("0 12 1 1 *", "UTC"),
    ("* * * * *", "Europe/Berlin"),
    ("30 2 * * *", "Europe/Berlin"),
    ("*/5 9-17 * * 1-5", "America/New_York"),
    ("0 12 1 1 *", "Europe/Berlin"),
]


def ours(cron: str, zone: str) -> None:
    timing = parse(f"cron: {cron}\nzone: {zone}\n".encode()).timing()
    at: int | None = int(START.timestamp()) * 1_000_000_000
    for _ in range(TIMES):
        at = timing.after(at) if at is not None else None


def cronsim(cron: str, zone: str) -> None:
    times = CronSim(cron, START.astimezone(ZoneInfo(zone)))
    for _ in range(TIMES):
        next(times)


def with_croniter(cron: str, zone: str) -> None:
    times = croniter(cron, START.astimezone(ZoneInfo(zone)))
    for _ in range(TIMES):
        times.get_next(datetime)


def cost_us(work: Callable[[str, str], None], cron: str, zone: str) -> float:
    """Return the microseconds of processor time of one next time."""
    began_ns = time.process_time_ns()
    work(cron, zone)
    return (time.process_time_ns() - began_ns) / TIMES / 1000


def main() -> None:
    sys.stdout.write(f"{'µs of processor time':<38}{'ours':>8}{'cronsim':>10}{'croniter':>10}\n")
    for cron, zone in CASES:
        rounds = [[cost_us(work, cron, zone) for work in (ours, cronsim, with_croniter)] for _ in range(ROUNDS)]
        figures = [statistics.median(each) for each in zip(*rounds, strict=True)]
        sys.stdout.write(f"{f'{cron}  {zone}':<38}{figures[0]:>8.1f}{figures[1]:>10.1f}{figures[2]:>10.1f}\n")


if __name__ == "__main__":
    main()
