"""What every verb shares: results on standard output, errors as one line, and how a verb ends that was refused."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from beanpole_ids.errors import ExitCode
from beanpole_ids.logs import visible

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

FILE = click.Path(dir_okay=False, path_type=Path)


class Number(click.ParamType[int]):
    """A whole number that is called something. Help does not show its limits, which hardly anybody meets."""

    def __init__(self, name: str, minimum: int, maximum: int) -> None:
        self.name = name
        self.minimum = minimum
        self.maximum = maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number if it is one."""
        try:
            number = int(value)
        except ValueError:
            number = self.minimum - 1
        if not self.minimum <= number <= self.maximum:
            self.fail(f"{value!r} is no whole number from {self.minimum} to {self.maximum}", param, ctx)
        return number


class Failure(click.ClickException):
    """One line for the user, and the exit code."""

    def __init__(self, message: str, exit_code: int = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it of the object
        self.ctx = click.get_current_context(silent=True)


def reason_of(error: BaseException) -> str:
    """Return what an error says, without its number."""
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason
    return str(error)


def forget_output() -> None:
    """Have what could not be written go nowhere, or the interpreter would try it again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Output:
    """Standard output: JSON lines, a table on a terminal, or lines with tabs for other programs."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def line(self, text: str) -> None:
        """Write a line; what is no text (a lone surrogate) is escaped as JSON does it."""
        data = memoryview(f"{text}\n".encode(errors="backslashreplace"))
        while data:  # with PYTHONUNBUFFERED, standard output may take only some of it
            data = data[sys.stdout.buffer.write(data) :]

    def record(self, record: Mapping[str, object], text: str) -> None:
        self.line(json.dumps(record, ensure_ascii=False) if self.as_json else text)

    def table(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows, of which the columns are shown; with --json a line for each row, with all that is in it."""
        if self.as_json:
            for row in rows:
                self.record(row, "")
        elif sys.stdout.isatty():
            draw(columns, list(rows))
        else:
            self.line("\t".join(columns))
            for row in rows:
                self.line("\t".join(cell(row[column]) for column in columns))

    def flush(self) -> None:
        """Hand over everything that was written; raises BrokenPipeError if nobody reads it."""
        sys.stdout.flush()


def cell(value: object) -> str:
    """Return a value as it stands in a table: on one line, and without what could move a terminal's cursor."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(str(value), kept="")


def draw(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Draw a table on the terminal, numbers on the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    for column in columns:
        right = bool(rows) and all(type(row[column]) in {int, float} for row in rows)
        table.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row[column])) for column in columns))
    Console().print(table)
