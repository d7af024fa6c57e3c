"""``beanpole-ids check``: verify rules, and say how long their numbers last."""

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import click

from beanpole_ids import limits
from beanpole_ids.cli.output import FILE, SETTINGS
from beanpole_ids.config import load
from beanpole_ids.errors import ExitCode, RuleError, StartError
from beanpole_ids.rules.rule import Rule, preview
from beanpole_ids.storage.database import database_at


class Rate(click.ParamType[float]):
    """Numbers a second: above 0, and no infinity."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not 0 < found < math.inf:
            self.fail(f"{value!r} is no number above 0", param, ctx)
        return found


class Moment(click.ParamType[int]):
    """A moment: Unix seconds, or a date and time in the form of ISO 8601, of UTC unless it says otherwise."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            if str(value).isdecimal():
                return int(value)
            found = datetime.fromisoformat(str(value))
            return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
        except ValueError:
            self.fail(f"{value!r} is neither Unix seconds nor a date as in 2026-12-31T23:59", param, ctx)


@click.command(context_settings=SETTINGS, short_help="Verify rules, show what they make, and how long they last.")
@click.argument("config", type=FILE)
@click.option(
    "--at",
    "at_s",
    type=Moment(),
    help="The moment that numbers show: Unix seconds, or a date as in 2026-12-31T23:59 (UTC). The default is now.",
)
@click.option("--rate", type=Rate(), help="Numbers a second: show when the range runs out.")
def check(config: Path, at_s: int | None, rate: float | None) -> int:
    """Verify CONFIG, as `serve` does before it starts; show the first, next and last number of each rule.

    The database isn't asked, so it need not be there; only its address and driver are verified.

    Below them: how many numbers a cycle has, the rate at which they last until its end, and what a crash costs.
    """
    if at_s is None:
        at_s = int(time.time())
    try:
        found = load(config)
        database_at(found.database, limits.STORE_TIMEOUT_S)
        for name, rule in found.rules.items():
            numbers = "  ".join(f"{which} {number}" for which, number in preview(rule, at_s).items())
            print(f"{name}: {numbers}")
            for line in outlook(rule, at_s, rate):
                print(f"  {line}")
    except RuleError as error:
        raise StartError(str(error), ExitCode.USAGE) from error
    return ExitCode.OK


def outlook(rule: Rule, at_s: int, rate: float | None) -> Iterator[str]:
    """Describe how long the numbers of a rule last from a moment on, and what a crash costs."""
    shape, cycle = rule.counting.shape, rule.cycle
    first = rule.counting.first(at_s)
    left, end_s = shape.remaining(first - 1), cycle.end_s(at_s)
    layout = getattr(rule.counting, "layout", None)
    cost = min(rule.counting.crash_cost, left)
    if layout is not None:
        most = (1 << layout.sequence_bits) * 1000 / layout.unit_ms
        yield f"{rule.source}: until {moment(layout.moment_ms(shape.maximum) / 1000)}, up to {most:.0f}/s"
        if rate is not None:
            yield f"at {rate:g}/s: {'enough' if rate <= most else 'too fast, numbers run ahead of the clock'}"
        window_s = (rule.counting.batch >> layout.sequence_bits) * layout.unit_ms / 1000
        yield f"after a crash numbers show a time that is up to {window_s:g} s later than it is"
    elif end_s is None:
        yield f"{left} numbers in all"
        if rate is not None:
            yield f"at {rate:g}/s: runs out after {left / rate:.0f} s, {moment(at_s + left / rate)}"
    else:
        start_s = cycle.start_s(at_s)
        each = f"{cycle.seconds} s" if cycle.seconds else cycle.unit
        yield f"{left} numbers each {each} of {cycle.zone}, enough for {left / (end_s - start_s):.3g}/s"
        if rate is not None:
            out_s = start_s + left / rate
            text = "enough" if out_s >= end_s else f"runs out after {left / rate:.0f} s, {moment(out_s, cycle.zone)}"
            yield f"at {rate:g}/s: {text}; the cycle ends {moment(end_s, cycle.zone)}"
    if layout is None:
        whole = "all" if end_s is None else "a cycle"
        waiting = "that its waiting requests ask for"
        if rule.counting.batch == 1:
            most = limits.COUNT_MAX
            yield f"a crash costs an application the numbers {waiting}: a client's last `count`, up to {most}"
        else:
            yield f"a crash costs an application up to {cost} numbers, {cost / left:.2%} of {whole}, or those {waiting}"
        if cost * 100 > left * limits.CRASH_PERCENT_MAX:
            yield f"warning: that is more than {limits.CRASH_PERCENT_MAX}%; a smaller batch costs less"
        if shape.step > 1:
            yield f"numbers of this node are {shape.step} apart: those between them are other nodes', and may be gaps"
        yield f"fingerprint {rule.counting.fingerprint.digest}"


def moment(seconds: float, zone: tzinfo = UTC) -> str:
    try:
        return datetime.fromtimestamp(int(seconds), zone).isoformat(" ")
    except (ValueError, OverflowError):
        return "after the year 9999"
