"""The table beside the floor: a C program that answers each batch with one recv and one send, and keeps nothing."""

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

from benchmarks.bench.dial import SetupError
from benchmarks.bench.plan import Ask, Group, Row
from benchmarks.bench.rows import CYCLE_1, CYCLE_16, CYCLE_100, LONE, one
from benchmarks.bench.rows_durable import LONE_PUT, always
from benchmarks.bench.server import HOST

SOURCE = Path(__file__).with_name("floor.c")
PROGRAM = SOURCE.parent.parent.parent / "build" / "bench" / "floor"

LONE_ROW = replace(LONE_PUT, measure="lone", args_floor=("{data}",))

ROWS = (
    Row("floor-1x1", "put+reserve+delete, 1 connection, 1 in flight", "cpu_us", one(LONE), Ask(1.25, "floor")),
    Row("floor-50x1", "the same, 50 connections", "cpu_us", one(CYCLE_1), Ask(1.05, "floor")),
    Row("floor-50x16", "the same, 16 in flight each", "cpu_us", one(CYCLE_16), Ask(0.06)),
    Row("floor-50x100", "the same, 100 in flight each", "cpu_us", one(CYCLE_100), Ask(0.025)),
    Row("floor-lone-put", "always: one lone put", "cpu_us", LONE_ROW, Ask(1.5, "floor")),
    Row(
        "floor-lone-put-idle",
        "the same beside an idle connection",
        "cpu_us",
        replace(LONE_ROW, groups=(*LONE_ROW.groups, Group(programme="", name="idle"))),
    ),
    Row(
        "floor-durable-50x16",
        "always: put+reserve+delete, 50 connections, 16 in flight, against no log",
        "rate",
        replace(always(one(CYCLE_16)), args_floor=("{data}",)),
        Ask(0.6, "own", at_most=False),
        baseline=one(CYCLE_16),
    ),
)


def command() -> tuple[str, ...]:
    """Compiles the floor if it has changed; returns its command line, a template as those of the servers are."""
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        new = PROGRAM.with_suffix(f".{os.getpid()}")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        try:
            subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-o", str(new), str(SOURCE)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SetupError(f"{SOURCE.name} can't be compiled: {error}") from error
        new.replace(PROGRAM)
    return (str(PROGRAM), HOST, "{port}")
