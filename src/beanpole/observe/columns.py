"""The columns of `top`: what each shows of a tube, how it is sorted, and which go first when the window is narrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beanpole.observe.top_sampler import Row
from beanpole.observe.units import count, duration, rate, wait


class Cell(NamedTuple):
    """What a cell shows, and in which style of rich."""

    text: str
    style: str


QUIET = "bright_black"  # the style of what is nothing


@dataclass(frozen=True, slots=True)
class Column:
    """A column."""

    title: str
    width: int
    """Characters without the gap, with room for the title and its arrow; 0: what the others leave."""
    key: Callable[[Row], float | str]
    """What it is sorted by."""
    cell: Callable[[Row], Cell]
    keep: int = 0
    """Of the columns that do not fit, the one with the smallest number goes first."""
    help: str = ""
    timed: bool = False
    """Only where the server says how long jobs waited, and were held."""


def counted(field: str, style: str) -> tuple[Callable[[Row], float], Callable[[Row], Cell]]:
    def number(row: Row) -> int:
        return int(getattr(row.stats, field))

    return number, lambda row: Cell(count(number(row)), style if number(row) else QUIET)


def rated(field: str) -> tuple[Callable[[Row], float], Callable[[Row], Cell]]:
    def key(row: Row) -> float:
        per_second: float | None = getattr(row, field)
        return -1.0 if per_second is None else per_second

    return key, lambda row: Cell(rate(getattr(row, field)), "" if getattr(row, field) else QUIET)


def age_key(row: Row) -> float:
    """Seconds since the oldest ready job became ready, else since the next one was put; -1: not known, or none."""
    if row.oldest_s is not None:
        return row.oldest_s
    return -1 if row.next_job is None else row.next_job.age


def age_cell(row: Row) -> Cell:
    age_s = age_key(row)
    if age_s < 0:
        return Cell("" if row.stats.current_jobs_ready else "-", QUIET)
    return Cell(duration(age_s), "")


def timed(kind: str, field: str) -> tuple[Callable[[Row], float], Callable[[Row], Cell]]:
    def key(row: Row) -> float:
        times = getattr(row, kind)
        return -1.0 if times is None else float(getattr(times, field))

    return key, lambda row: Cell("-", QUIET) if key(row) < 0 else Cell(wait(key(row)), "")


def pause_cell(row: Row) -> Cell:
    left_s = row.stats.pause_time_left
    return Cell(duration(left_s), "bold yellow") if row.stats.pause else Cell("-", QUIET)


def tube_cell(row: Row) -> Cell:
    """A tube, and beside it the shards that have it, if it is one of several."""
    shards = row.stats.get("shards")
    return Cell(row.stats.name if shards is None else f"{row.stats.name} [{shards}]", "bold")


COLUMNS: tuple[Column, ...] = (
    Column("TUBE", 0, lambda row: row.stats.name, tube_cell, 99, "its name"),
    Column("READY", 8, *counted("current_jobs_ready", "green"), 90, "jobs that can be reserved"),
    Column("RESERVED", 9, *counted("current_jobs_reserved", "cyan"), 80, "jobs in the hands of workers"),
    Column("DELAYED", 8, *counted("current_jobs_delayed", "blue"), 60, "jobs that wait for their time"),
    Column("BURIED", 8, *counted("current_jobs_buried", "bold red"), 70, "jobs put aside; k kicks them"),
    Column("WAITING", 8, *counted("current_waiting", ""), 50, "workers that wait for a job"),
    Column("WATCHING", 9, *counted("current_watching", ""), 10, "connections that watch it"),
    Column("PUT/S", 7, *rated("put_rate"), 40, "jobs put a second"),
    Column("DELETE/S", 9, *rated("delete_rate"), 30, "jobs deleted a second"),
    Column("P50", 6, *timed("waits", "half_s"), 15, "half of the jobs now reserved were ready for less", timed=True),
    Column("P99", 6, *timed("waits", "most_s"), 25, "99 % of them were ready for less", timed=True),
    Column("RUN50", 6, *timed("runs", "half_s"), 13, "half of those now done with were held for less", timed=True),
    Column("RUN99", 6, *timed("runs", "most_s"), 24, "99 % of them were held for less", timed=True),
    Column("AGE", 6, age_key, age_cell, 28, "since when the oldest is ready, or the next one was put"),
    Column("PAUSE", 6, lambda row: row.stats.pause_time_left, pause_cell, 45, "what is left of a pause"),
)

GAP = 1  # characters between two columns
TUBE_WIDTH_MIN = 18  # characters that a name and the margins have before another column has to go


def fitting(width: int, *, timed: bool) -> Sequence[Column]:
    """The columns that fit into a window, in their order."""
    kept = [each for each in COLUMNS if timed or not each.timed]
    while len(kept) > 1 and TUBE_WIDTH_MIN + sum(each.width + GAP for each in kept[1:]) > width:
        kept.remove(min(kept, key=lambda each: each.keep))
    return kept
