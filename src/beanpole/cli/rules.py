"""``beanpole rules``: what the server does to the jobs of certain tubes by itself.

A file of rules has sets, each with a pattern in brackets above its lines; what stands behind ``#`` at the beginning of
a line is for people::

    # retries for all kinds of mail
    [mail-*]
    attempts: 5
    backoff: 1 factor 3

    [*]
    jobs-max: 1000000
"""

import difflib
import sys
from typing import IO, Any

import click

from beanpole.cli.common import EXIT_CODES, TUBE, Output, Server, Tube, verb
from beanpole.cli.errors import Failure, missing, note, reporting
from beanpole.cli.wrapping import SETTINGS
from beanpole.client import Rules
from beanpole.client.ruling import pattern_bytes
from beanpole.errors import ArgumentError, ExitCode, NotFoundError, RulesError
from beanpole.operations.listing import need
from beanpole.operations.plan import run
from beanpole.protocol.rules import RULES, parse


class Pattern(click.ParamType[str]):
    """The name of a tube, the beginning of names with a ``*`` behind it, or ``*``."""

    name = "pattern"
    shell_complete = TUBE.shell_complete

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            pattern_bytes(str(value))
        except ArgumentError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class OneTube(Tube):
    """The name of a tube, not a pattern."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).endswith("*"):
            self.fail(f"{value} is a pattern, not a tube; beanpole rules list shows the rules of all", param, ctx)
        return super().convert(value, param, ctx)


PATTERN = Pattern()

HINT = " (see beanpole rules --help)"

HELP = """Set rules for tubes: attempts, limits, expiry and so on.

A PATTERN is the name of a tube, the beginning of names with a * behind it, or *. For a tube the rules of its own
name apply, else those of the longest PATTERN that fits; nothing is merged. There are these rules, of which a server
may know only some:

\b
""" + "\n".join(f"  {name}: {rule.form}\n      {rule.effect}" for name, rule in RULES.items())


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES, help=HELP)
def rules() -> None:
    """Set, show and drop rules."""


# --- One pattern ------------------------------------------------------------------------------------------------------


@verb("set")
@click.argument("pattern", type=PATTERN)
@click.argument("lines", nargs=-1, metavar="[RULE]...")
def set_(server: Server, out: Output, pattern: str, lines: tuple[str, ...]) -> None:
    """Set the rules of PATTERN, in place of those that it has.

    A RULE is as "attempts: 5" or attempts=5. Without one, standard input has a line for each.
    """
    if not lines and sys.stdin.isatty():
        raise click.UsageError("no rules: give RULEs, or pipe lines in")
    text = (
        "".join(f"{line_of(each)}\n" for each in lines) if lines else sys.stdin.buffer.read().decode(errors="replace")
    )
    try:
        server.client().set_rules(pattern, text)
    except RulesError as error:
        raise Failure(f"{error}{HINT}", ExitCode.USAGE) from error
    none = "" if text.strip() else ": there are none, and those of other patterns don't apply"
    out.record({"pattern": pattern, "result": "set"}, f"rules of {pattern} set{none}")


def line_of(argument: str) -> str:
    """Return the line of a rule, of which ``attempts=5`` is another form."""
    name, sign, value = argument.partition("=")
    return f"{name}: {value}" if sign and ":" not in name else argument


@verb("show")
@click.argument("tube", type=OneTube())
def show(server: Server, out: Output, tube: str) -> None:
    """Show the rules that apply to TUBE, which need not exist, and the pattern that they are set for."""
    with missing(f"no rules apply to {tube}"):
        found = server.client().get_rules(tube)
    out.record(record_of(found), section(found))


@verb("drop")
@click.argument("patterns", type=PATTERN, nargs=-1, required=True, metavar="PATTERN...")
def drop(server: Server, out: Output, patterns: tuple[str, ...]) -> ExitCode:
    """Drop the rules of each PATTERN."""
    client, code = server.client(), ExitCode.OK
    for each in patterns:
        try:
            client.drop_rules(each)
        except NotFoundError:
            out.flush()
            note(f"no rules are set for {each}")
            code = code or ExitCode.NOT_FOUND
        else:
            out.record({"pattern": each, "result": "dropped"}, f"rules of {each} dropped")
    return code


# --- All --------------------------------------------------------------------------------------------------------------


@verb("list")
def list_(server: Server, out: Output) -> None:
    """Show all rules, in the form in which apply takes them."""
    found = server.client().list_rules()
    if out.as_json:
        for each in found:
            out.record(record_of(each), "")
    elif found:
        out.line("\n\n".join(section(each) for each in found))


@verb("apply")
@click.argument("file", type=click.File(errors="replace"))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Drop the rules of patterns that are not in FILE.")
def apply(server: Server, out: Output, file: IO[str], *, dry_run: bool, prune: bool) -> None:
    """Set the rules of all patterns in FILE ("-" is standard input), and show what changes.

    Each has its pattern in brackets above its rules, as in what list shows. All lines are checked before the first is
    sent: with one that is wrong nothing changes. Rules that are as they were are not sent, but through a router of
    several shards, of which one may lack them.
    """
    wanted = read(file)
    client = server.client()
    names = {line.partition(":")[0] for text in wanted.values() for line in text.splitlines()}
    run(client, need("set-rules", "list-rules", "drop-rules", *(f"rule.{name}" for name in sorted(names))))
    there = {each.pattern: each.text for each in client.list_rules()}
    is_one = "shards" not in client.stats()
    patterns = [pattern for pattern, text in wanted.items() if not is_one or there.get(pattern) != text]
    patterns += sorted(there.keys() - wanted.keys()) if prune else []
    done = 0

    def story() -> str:
        return f"{done} of {len(patterns)} changes made; call it again to make the rest"

    with reporting(story):
        for pattern in patterns:
            before, after = there.get(pattern), wanted.get(pattern)
            if not dry_run:
                if after is None:
                    client.drop_rules(pattern)
                else:
                    client.set_rules(pattern, after)
                done += 1
            lines = difference(section_lines(pattern, before), section_lines(pattern, after))
            out.record({"pattern": pattern, "before": before, "after": after}, lines)
    if not patterns:
        note("nothing to change")
    elif dry_run:
        note("nothing was changed: this was a dry run")


def difference(before: list[str], after: list[str]) -> str:
    """Return what becomes of some lines of a file: what goes has a - in front of it, what comes a +."""
    return "\n".join(line for line in difflib.ndiff(before, after) if line[0] != "?")


def read(file: IO[str]) -> dict[str, str]:
    """Read a file of rules; return the lines of each pattern as a server writes them.

    Raises Failure: a line is wrong.
    """
    sets: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    lines: list[str] | None = None
    for number, each in enumerate(file, 1):
        line = each.strip()
        if line.startswith("[") and line.endswith("]"):
            pattern = line[1:-1]
            if pattern in sets:
                raise wrong(file, number, f"[{pattern}] is there twice")
            try:
                pattern_bytes(pattern)
            except ArgumentError as error:
                raise wrong(file, number, str(error)) from error
            sets[pattern], first[pattern] = [], number + 1
            lines = sets[pattern]
        elif lines is not None:
            lines.append("" if line.startswith("#") else line)
        elif line and not line.startswith("#"):
            raise wrong(file, number, "a pattern in brackets is wanted above the rules")
    return {pattern: canonical(file, first[pattern], lines) for pattern, lines in sets.items()}


def canonical(file: IO[str], first: int, lines: list[str]) -> str:
    """Return the lines of a set of rules, the first of which has this number, as a server writes them.

    Raises Failure: one is wrong.
    """
    try:
        return parse("\n".join(lines).encode()).text.decode()
    except RulesError as error:
        raise wrong(file, first + max(error.line - 1, -1), error.why + HINT) from error


def wrong(file: IO[Any], number: int, why: str) -> Failure:
    return Failure(f"{file.name}:{number}: {why}; nothing was changed", ExitCode.USAGE)


# --- Showing ----------------------------------------------------------------------------------------------------------


def section(found: Rules) -> str:
    """Return rules as a file has them."""
    return "\n".join(section_lines(found.pattern, found.text))


def section_lines(pattern: str, text: str | None) -> list[str]:
    """Return the lines of rules in a file; none for no rules."""
    return [] if text is None else [f"[{pattern}]", *text.splitlines()]


def record_of(found: Rules) -> dict[str, object]:
    return {"pattern": found.pattern, "rules": dict(found)}


for each in (set_, show, drop, list_, apply):
    rules.add_command(each)
