"""``beanpole ids``: run the ID service, and check its rules."""

import importlib
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beanpole.errors import ExitCode, StartError
from beanpole.ids.errors import RuleError

if TYPE_CHECKING:
    from beanpole.ids.rules.rule import Rule

CONFIG = click.Path(dir_okay=False, path_type=Path)


ELSEWHERE = dict.fromkeys(("get", "rules", "counters", "reload"), "ids_client") | {"export-counters": "ids_export"}
"""The modules of verbs that need what a program which only serves does not have."""


class Verbs(click.Group):
    """The group, which imports those verbs when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"beanpole.cli.{ELSEWHERE[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
def ids() -> None:
    """Make unique, readable numbers."""


@ids.command(short_help="Serve numbers over UDP, and over HTTP if that is configured.")
@click.argument("config", type=CONFIG)
@click.option("--ready-file", type=CONFIG, help="Write the bound address into this file when clients are answered.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "console", "json"]),
    default="auto",
    show_default=True,
    help="How messages on standard error look; auto is console on a terminal, and json elsewhere.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Go on with a copy or a backup of a database of SQLite. Only for the start that was refused.",
)
def serve(config: Path, ready_file: Path | None, log_format: str, adopt: bool) -> int:
    """Serve the rules of CONFIG, a TOML file or a JSON file of lxyfirst/id_server.

    SIGHUP and SIGUSR1 read the rules again, all or none. SIGTERM, SIGINT and SIGUSR2 stop, and give unused ranges back.
    """
    need_extra()
    from beanpole.ids import app
    from beanpole.server.logs import open_logger
    from beanpole.server.process import notify_systemd, write_ready_file

    def ready(addresses: list[str]) -> None:
        if ready_file is not None:
            write_ready_file(ready_file, addresses)
        notify_systemd("READY=1")

    logger, found = open_logger(log_format), app.read(config)
    if adopt:
        app.adopt([found, *(app.read(config, process) for process in range(1, found.processes))])
    if found.processes > 1:
        from beanpole.cli.ids_processes import serve_with_processes

        return serve_with_processes(config, found, logger, ready)
    return int(app.serve(config, logger, ready, config=found))


class Rate(click.ParamType[float]):
    """Numbers a second: above 0, and no infinity."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return it."""
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
        """Return it in Unix seconds."""
        try:
            if str(value).isdecimal():
                return int(value)
            found = datetime.fromisoformat(str(value))
            return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
        except ValueError:
            self.fail(f"{value!r} is neither Unix seconds nor a date as in 2026-12-31T23:59", param, ctx)


@ids.command(short_help="Verify rules, show what they make, and how long they last.")
@click.argument("config", type=CONFIG)
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
    need_extra()
    from beanpole.ids import limits
    from beanpole.ids.config import load
    from beanpole.ids.rules.rule import preview
    from beanpole.ids.storage.database import database_at

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


def outlook(rule: "Rule", at_s: int, rate: float | None) -> Iterator[str]:
    """Describe how long the numbers of a rule last from a moment on, and what a crash costs."""
    from beanpole.ids import limits
    from beanpole.limits import IDS_COUNT_MAX

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
            yield f"a crash costs an application the numbers {waiting}: a client's last `count`, up to {IDS_COUNT_MAX}"
        else:
            yield f"a crash costs an application up to {cost} numbers, {cost / left:.2%} of {whole}, or those {waiting}"
        if cost * 100 > left * limits.CRASH_PERCENT_MAX:
            yield f"warning: that is more than {limits.CRASH_PERCENT_MAX}%; a smaller batch costs less"
        if shape.step > 1:
            yield f"numbers of this node are {shape.step} apart: those between them are other nodes', and may be gaps"
        yield f"fingerprint {rule.counting.fingerprint.digest}"


def moment(seconds: float, zone: tzinfo = UTC) -> str:
    """Return a moment as people read it."""
    try:
        return datetime.fromtimestamp(int(seconds), zone).isoformat(" ")
    except (ValueError, OverflowError):
        return "after the year 9999"


def need_extra() -> None:
    """Say what to install if the optional packages are not there.

    Raises StartError: they are not.
    """
    try:
        import lupa  # noqa: F401 - whether it is there is the question
        import orjson  # noqa: F401 - see above
        import sqlalchemy  # noqa: F401 - see above
    except ImportError as error:
        raise StartError(f"{error.name} is not installed: pip install 'beanpole[ids]'", ExitCode.FAILED) from error
