"""Options that are a time or a size, of every verb: `beanpole.quantities` says how people write durations and sizes."""

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from beanpole import limits
from beanpole.quantities import DURATION_FORM, DURATIONS, MOMENT_FORM, SIZE_FORM, bytes_of, moment_of, seconds_of

DURATION_NOTE = "DURATION is a number of seconds, or a time as in 10m, 1h30m, 500ms."
TIME_NOTE = (
    "TIME is as in 2026-03-29T02:30:00, local in the zone of the schedule, or with Z or +02:00 behind it; a date alone"
    " is its first moment."
)
MS_NOTE = "DURATION of --{} is a number of milliseconds, or a time as in 50ms, 2s."
SIZE_NOTE = "SIZE is a number of bytes, or as in 64KiB, 1M."


class Duration(click.ParamType[float]):
    """A time, counted in seconds or milliseconds; a number alone counts these. Whole ones are an int."""

    name = "duration"

    def __init__(
        self, minimum: float = 0, maximum: float = limits.PRI_MAX, *, unit: str = "s", whole: bool = False
    ) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.unit = unit
        self.whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        seconds = seconds_of(text, self.unit)
        if seconds is None:
            self.fail(f"{text!r} is no time; {DURATION_FORM}", param, ctx)
        number = seconds / DURATIONS[self.unit]
        if self.whole and number.denominator != 1:
            self.fail(f"{text!r} is no whole number of {WORDS[self.unit]}", param, ctx)
        if not Fraction(str(self.minimum)) <= number <= Fraction(str(self.maximum)):
            self.fail(f"{text!r} is not from {self.minimum:g} to {self.maximum:.10g} {WORDS[self.unit]}", param, ctx)
        return int(number) if number.denominator == 1 else float(number)


WORDS = {"s": "seconds", "ms": "milliseconds"}

DURATION = Duration()  # may have a fraction of a second, where the server knows that
SECONDS = Duration(whole=True)  # which every server knows
TTR = Duration(1, whole=True)  # a server makes 1 of 0, so nobody gets what 0 might mean


class Size(click.ParamType[int]):
    """A number of bytes."""

    name = "size"

    def __init__(self, minimum: int = 0, maximum: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        number = bytes_of(text)
        if number is None:
            self.fail(f"{text!r} is no size; {SIZE_FORM}", param, ctx)
        if number < self.minimum:
            self.fail(f"{text!r} is less than {self.minimum} bytes", param, ctx)
        if self.maximum is not None and number > self.maximum:
            self.fail(f"{text!r} is more than {self.maximum} bytes", param, ctx)
        return number


class ShardNumbers(click.ParamType[tuple[int, ...]]):
    """The numbers of a shard, as in 3 or 3,17; none of nothing."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        from beanpole.shard_ids import read_numbers

        if isinstance(value, tuple) or value == "":
            return value or ()
        try:
            return read_numbers(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType[float]):
    """A moment, in seconds since 1970."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        moment = moment_of(str(value))
        if moment is None:
            self.fail(f"{str(value)!r} is no moment; {MOMENT_FORM}", param, ctx)
        if not 0 <= moment <= limits.MOMENT_S_MAX:
            self.fail(f"{str(value)!r} is before 1970, or too far ahead", param, ctx)
        return float(moment)


class Time(click.ParamType[str]):
    """A time of RFC 3339, or a date; without an offset it is local, and whose local time counts is not known here."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from beanpole.schedules.document import DATE, read_time

        text = f"{value}T00:00:00" if DATE.fullmatch(str(value)) else str(value)
        try:
            return read_time([text.encode()])
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)


class Zone(click.ParamType[str]):
    """A time zone that this machine has data of."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from beanpole.schedules.zones import ZoneError, zone

        try:
            zone(str(value))
        except ZoneError as error:
            self.fail(str(error), param, ctx)
        return str(value)


MOMENT = Moment()
SHARD = ShardNumbers()
TIME = Time()
ZONE = Zone()


def zone_of_machine() -> str:
    """Return the time zone that programs of this machine are in; UTC if it doesn't say."""
    from beanpole.schedules.zones import ZoneError, zone

    named = Path("/etc/timezone")
    for name in (
        os.environ.get("TZ", "").removeprefix(":"),
        str(Path("/etc/localtime").resolve()).rpartition("/zoneinfo/")[2],
        named.read_text(errors="replace").strip() if named.is_file() else "",
    ):
        try:
            return zone(name).key.replace("Etc/UTC", "UTC")
        except ZoneError:
            continue
    return "UTC"


def notes_of(command: click.Command) -> str:
    """Return what the help of a command says of its times and sizes, a paragraph each; empty if it has none."""
    kinds = [each.type for each in command.params]
    notes = []
    if any(isinstance(each, Duration) and each.unit == "s" for each in kinds):
        notes.append(DURATION_NOTE)
    notes += [TIME_NOTE] if any(isinstance(each, Time) for each in kinds) else []
    notes += [
        MS_NOTE.format(each.opts[-1].removeprefix("--"))
        for each in command.params
        if isinstance(each.type, Duration) and each.type.unit == "ms"
    ]
    if any(isinstance(each, Size) for each in kinds):
        notes.append(SIZE_NOTE)
    return "".join(f"{each}\n\n" for each in notes)
