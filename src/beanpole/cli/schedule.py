"""``beanpole schedule``: what the server puts by itself at certain times.

A file of schedules is TOML: see ``beanpole.schedules.file``. What is wrong with a schedule is found here, by the code
that the server has, before anything is sent; so is when it fires.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import IO, TYPE_CHECKING, Any

import click

from beanpole.cli.common import COUNT, EXIT_CODES, TUBE, Output, Server, Tube, body_fields, verb
from beanpole.cli.errors import Failure, missing, note, reporting
from beanpole.cli.inspect import unix_s
from beanpole.cli.quantities import DURATION, TIME, ZONE
from beanpole.cli.rules import PATTERN, difference, wrong
from beanpole.cli.wrapping import SETTINGS
from beanpole.client import Client
from beanpole.errors import ExistsError, ExitCode, NotFoundError, ScheduleError
from beanpole.operations.listing import need
from beanpole.operations.plan import run
from beanpole.operations.schedules import (
    clock,
    documents,
    fits,
    is_put_forward,
    local_time,
    next_of,
    times_from,
    utc,
    when_of,
)
from beanpole.protocol import limits
from beanpole.schedules.document import HEADER_BYTES_MAX, KINDS, LINES, Document, header_of, parse
from beanpole.schedules.file import EntryError, comment, document_of, read, section
from beanpole.schedules.zones import ZoneError

if TYPE_CHECKING:
    from beanpole.client import Schedule

FIRES_MAX = 10_000
"""Times that are made up for at a time: more is likely a mistake."""

COLUMNS = ("name", "state", "next", "local", "times", "fires", "skips", "misses")
"""What `list` shows: as much as fits a terminal."""

FORWARD = " (the clock goes forward)"
"""Behind a time by the clock that is another than the schedule names."""

WHEN = (*KINDS, "zone", "weeks", "except", "start", "end")
"""The lines that say when a schedule fires."""


class Name(Tube):
    """The name of a schedule; a shell completes those that the server has."""

    name = "name"

    def names(self, client: Client[Any]) -> Iterable[str]:
        return [each.name for each in client.schedules()]


NAME = Name()

HINT = " (see beanpole schedule --help)"

HELP = """Set schedules: jobs that the server puts by itself, by cron expressions, at intervals, or once.

A schedule has these lines; set has an option for each. S is a duration, TIME is as in 2026-03-29T02:30:00, local in
zone, or with Z or +02:00 behind it.

\b
""" + "\n".join(f"  {name}: {row.form}\n      {row.effect}" for name, row in LINES.items())


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES, help=HELP)
def schedule() -> None:
    """Set, show, fire and drop schedules."""


# --- Options ----------------------------------------------------------------------------------------------------------


def line_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option for each of some lines."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            effect, _, default = LINES[name].effect.partition("; ")
            text = f"{effect[0].upper()}{effect[1:]}." + (f"  [default: {default}]" if default else "")
            flags = FLAGS.get(name, (f"--{name}",))
            kind, metavar = kind_of(name)
            function = click.option(*flags, name, type=kind, metavar=metavar, multiple=name == "except", help=text)(
                function
            )
        return function

    return decorate


FLAGS = {"tube": ("-t", "--tube"), "pri": ("--priority", "--pri")}


def kind_of(name: str) -> tuple[click.ParamType[Any], str | None]:
    """Return the type of a line's option, and what stands behind the option in help."""
    form = LINES[name].form
    known: dict[str, click.ParamType[Any]] = {"zone": ZONE, "tube": TUBE}
    if name in known:
        return known[name], None
    if "|" in form:
        return click.Choice(form.split("|")), None
    if form == "S":
        return DURATION, None
    if form == "TIME":
        return TIME, None
    return click.STRING, {"cron": "EXPRESSION", "except": "DATE"}.get(name, form)


def document(given: Mapping[str, Any], body: bytes = b"") -> Document:
    """Make a document of options. Raises UsageError: one is wrong."""
    try:
        return document_of({name: value for name, value in given.items() if value not in (None, ())}, body)
    except EntryError as error:
        raise click.UsageError(error.why) from error


# --- One schedule -----------------------------------------------------------------------------------------------------


EXAMPLE = """\
Example:
  beanpole schedule set nightly --cron '30 2 * * *' --zone Europe/Berlin \\
    --tube reports '{"kind":"nightly"}'
"""


@verb("set", EXAMPLE)
@click.argument("name", type=NAME)
@click.argument("body", default="")
@line_options(*LINES)
def set_(server: Server, out: Output, *, name: str, body: str, **given: Any) -> None:
    """Set a schedule, in place of the one of that name.

    One of --cron, --every and --at says when it fires. BODY is the body of its jobs, empty without it; "-" is standard
    input. As long as it fires at the same times as before, its next time stays; its counts and a pause always stay.
    """
    data = sys.stdin.buffer.read() if body == "-" else os.fsencode(body)
    made = document(given, data)
    after = server.client().set_schedule_text(name, made.text)
    record = {"name": name, "result": "set", "next": utc(after)}
    none = "its time has passed: it will not fire" if given["at"] else "nothing is left"
    out.record(record, f"{name} set; {none if after is None else f'next {both(after, made.zone)}'}")


@verb("show")
@click.argument("names", type=NAME, nargs=-1, metavar="[NAME]...")
def show(server: Server, out: Output, names: tuple[str, ...]) -> ExitCode:
    """Show schedules in the form that apply takes.

    Comments say what has become of them. Without NAME, all are shown.
    """
    client, code = server.client(), ExitCode.OK
    for each in names:
        try:
            show_one(out, client.schedule(each))
        except NotFoundError:
            code = unknown(out, each)
    for found in () if names else client.all_schedules(limits.DOCUMENT_BYTES_MAX):
        show_one(out, found)
    return code


def show_one(out: Output, found: "Schedule") -> None:
    """Write a schedule, with an empty line behind it."""
    where = header_of(found.document).get("zone", "UTC")
    heads = [f"{found.state}: {found.fires} fires, {found.skips} skips, {found.misses} misses"]
    heads += [f"blocked: {found.blocked}"] if found.blocked else []
    if found.next and found.state == "active":
        heads.append(f"next {both(found.next, where)}")
        heads += [f"put at {both(found.due, where)}, by its spread"] if found.due and found.due != found.next else []
    heads += [f"last {both(found.last, where)}"] if found.last else []
    heads += [f"last job {found.job}"] if found.job else []
    lines = [comment(each) for each in heads] + section(found.name, found.document)
    body = found.document.partition(b"\n\n")[2]
    out.record(record_of(found) | body_fields(body), "\n".join(lines) + "\n")


@verb("pause")
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
def pause(server: Server, out: Output, names: tuple[str, ...]) -> ExitCode:
    """Pause schedules until they are resumed.

    Their times pass then, and nothing is made up for.
    """
    return each_of(out, names, server.client().pause_schedule, "paused")


@verb("resume")
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
def resume(server: Server, out: Output, names: tuple[str, ...]) -> ExitCode:
    """End the pause of schedules."""
    return each_of(out, names, server.client().resume_schedule, "resumed")


@verb("drop")
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
def drop(server: Server, out: Output, names: tuple[str, ...]) -> ExitCode:
    """Drop schedules; the jobs that they have put stay."""
    return each_of(out, names, server.client().drop_schedule, "dropped")


def each_of(out: Output, names: Iterable[str], act: Callable[[str], Any], done: str) -> ExitCode:
    """Do something to schedules by their names; return the exit code."""
    code = ExitCode.OK
    for name in names:
        try:
            act(name)
        except NotFoundError:
            code = unknown(out, name)
        else:
            out.record({"name": name, "result": done}, f"{name} {done}")
    return code


def unknown(out: Output, name: str) -> ExitCode:
    """Say that there is no such schedule."""
    out.flush()
    note(f"there is no schedule {name}")
    return ExitCode.NOT_FOUND


@verb("fire")
@click.argument("name", type=NAME)
@click.option("--at", type=TIME, help="The time that its job is told it was put for.")
@click.option("--from", "first", type=TIME, help="Put a job for each time of the schedule from this one on ...")
@click.option("--to", "last", type=TIME, help="... to this one.  [default: now]")
@click.option("--dry-run", is_flag=True, help="Show the times of --from and --to, and put nothing.")
def fire(
    server: Server, out: Output, *, name: str, at: str | None, first: str | None, last: str | None, dry_run: bool
) -> None:
    """Put a job of a schedule now.

    That is done even if it is paused; its next time and its counts stay.

    With --from, a job for each of its times in between, also for those that were missed or skipped: a backfill.
    """
    if first is None and (last is not None or dry_run):
        raise click.UsageError("--to and --dry-run go with --from")
    if first is not None and at is not None:
        raise click.UsageError("--at and --from exclude each other")
    client = server.client()
    with missing(f"there is no schedule {name}"):
        if first is None and at is None:
            fired(out, name, None, client)
            return
        kept = parsed(name, client.schedule(name).document)
    if first is None:
        times = [local_time(at or "", kept.zone)]
    else:
        times = between(kept, local_time(first, kept.zone), local_time(last, kept.zone) if last else now())
    done = 0

    def story() -> str:
        go_on = f"; go on with --from {utc(times[done])}" if first and done < len(times) else ""
        return f"{done} of {len(times)} put{go_on}"

    with reporting(story):
        for each in times:
            fired(out, name, each, None if dry_run else client)
            done += 1
    if not times:
        note(f"{name} has no time in between")
    elif dry_run:
        note("nothing was put: this was a dry run")


def fired(out: Output, name: str, at: datetime | None, client: Client[bytes] | None) -> None:
    """Fire a schedule, maybe as of a time, and write what came of it; without a client, only write the time."""
    text, id, outcome = f"{name} for {utc(at)}" if at else name, None, None
    if client is not None:
        try:
            id, outcome = client.fire_schedule(name, at), "inserted"
            text += f": job {id}"
        except ExistsError as error:
            id, outcome = error.id, "exists"
            text += f": nothing, job {id} has its key"
    out.record({"name": name, "at": utc(at), "id": id, "outcome": outcome}, text)


# --- Times ------------------------------------------------------------------------------------------------------------


@verb("next")
@click.argument("name", type=NAME, required=False)
@click.option("-f", "--file", type=click.File("rb"), help="Of the schedules in this file, or of NAME in it.")
@click.option("-n", "--count", type=COUNT, default=10, show_default=True, help="How many times of each.")
@click.option("--from", "first", type=TIME, help="The times from this one on.  [default: now]")
@line_options(*WHEN)
def next_(
    server: Server,
    out: Output,
    *,
    name: str | None,
    file: IO[bytes] | None,
    count: int,
    first: str | None,
    **given: Any,
) -> None:
    """Show when schedules fire next.

    That is the schedule NAME of the server, or those of a file, or one that options describe, as in --cron '30 2 * * *'
    --zone Europe/Berlin. A server is asked only for the first. Times are shown in UTC, and by the clock of the zone:
    where that goes forward over a time, the time is put off to the end of the gap; of a time that there is twice the
    first counts.
    """
    is_given = any(value not in (None, ()) for value in given.values())
    if (name is None and file is None) != is_given:
        raise click.UsageError("give NAME, or --file, or else options that say when, --cron for example")
    if file is not None:
        found = read_file(file)
        if name is not None and name not in found:
            raise Failure(f"there is no schedule {name} in {file.name}", ExitCode.NOT_FOUND)
        found = found if name is None else {name: found[name]}
    elif name is not None:
        with missing(f"there is no schedule {name}"):
            found = {name: parsed(name, server.client().schedule(name).document)}
    else:
        found = {"": document(given)}
    out.table(
        ("utc", "local") if len(found) == 1 else ("name", "utc", "local"),
        (
            {"name": name, "utc": utc(at), "local": clock(at, kept.zone) + FORWARD * is_put_forward(at, kept)}
            for name, kept in found.items()
            for at in islice(times_from(kept, local_time(first, kept.zone) if first else now()), count)
        ),
    )


def between(kept: Document, first: datetime, last: datetime) -> list[datetime]:
    """Return the times from one to another. Raises Failure: there are too many."""
    found = list(islice(takewhile(lambda at: at <= last, times_from(kept, first)), FIRES_MAX + 1))
    if len(found) > FIRES_MAX:
        raise Failure(f"there are more than {FIRES_MAX} times in between; nothing was put", ExitCode.USAGE)
    return found


def now() -> datetime:
    return datetime.fromtimestamp(unix_s(), UTC)


def parsed(name: str, text: bytes) -> Document:
    """Read the document of a server. Raises Failure: it has lines that this program doesn't know, or no zone for it."""
    try:
        found = parse(text)
        found.timing()
    except (ScheduleError, ZoneError) as error:
        raise Failure(f"the times of {name} can't be known here: {error}") from error
    return found


def both(at: datetime, zone_name: str) -> str:
    """Return a time in UTC, and by the clock of a zone."""
    return f"{utc(at)}" + (f", {clock(at, zone_name)}" if zone_name != "UTC" else "")


# --- All --------------------------------------------------------------------------------------------------------------


@verb("list")
@click.option(
    "--sort",
    type=click.Choice(["name", "next"]),
    default="name",
    show_default=True,
    help="By next, the first thousand, without those that are paused or have ended.",
)
def list_(server: Server, out: Output, sort: str) -> None:
    """Show all schedules, and when they fire next.

    next is in UTC, local by the clock of the schedule's zone. fires are jobs that were put, skips times at which the
    last job was still there, misses times that were over for too long. With --json all that the server says of each.
    """
    client = server.client()
    if sort == "name":
        found = client.all_schedules(HEADER_BYTES_MAX)
    else:
        found = client.schedules(bodies=HEADER_BYTES_MAX, order="next")
    out.table(COLUMNS, map(record_of if out.as_json else row_of, found))


def row_of(found: "Schedule") -> dict[str, object]:
    header = header_of(found.document)
    after = next_of(found)
    return {
        "name": found.name,
        "state": f"blocked: {found.blocked}" if found.blocked else found.state,
        "next": utc(after) or "",
        "local": clock(after, header.get("zone", "UTC"), "%a %H:%M %Z") if after else "",
        "times": when_of(header).replace(": ", " ", 1).removeprefix("cron "),
        "fires": found.fires,
        "skips": found.skips,
        "misses": found.misses,
    }


def record_of(found: "Schedule") -> dict[str, object]:
    """Return all that is known of a schedule."""
    times = {name: utc(getattr(found, name)) for name in ("next", "last", "due")}
    numbers = {name: getattr(found, name) for name in ("fires", "skips", "misses", "size", "job", "blocked")}
    return {"name": found.name, "state": found.state} | times | numbers | {"lines": header_of(found.document)}


FILE_EXAMPLE = """\
Example of a FILE:
  [nightly]
  cron = "30 2 * * *"
  zone = "Europe/Berlin"
  except = [2026-12-25, 2026-12-26]
  tube = "reports"
  ttr = "1h30m"
  json = {kind = "nightly"}
"""


@verb("apply", FILE_EXAMPLE)
@click.argument("file", type=click.File("rb"))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--prune", type=PATTERN, help="Drop schedules whose names fit this pattern and that are not in FILE.")
def apply(server: Server, out: Output, file: IO[bytes], *, dry_run: bool, prune: str | None) -> None:
    """Set the schedules of a file, and show what changes.

    FILE ("-" is standard input) is TOML, as show writes it: each schedule is a table, whose keys are the lines of
    schedules, and body (a string), json (any value) or body_base64.

    All is checked before the first change: with one mistake in FILE nothing changes. Schedules that are as they were
    are not sent. Those that are not in FILE stay, but for --prune: 'billing-*' drops what begins so, '*' all.
    """
    wanted = {name: each.text for name, each in read_file(file).items()}
    client = server.client()
    lines = {line for text in wanted.values() for line in header_of(text)}
    commands = ("set-schedule", "get-schedule", "list-schedules", "drop-schedule")
    run(client, need(*commands, *(f"schedule.{each}" for each in sorted(lines))))
    listed = [each.name for each in client.all_schedules()] if prune else []
    surplus = [name for name in listed if fits(name, prune or "") and name not in wanted]
    there = run(client, documents([*wanted, *surplus]))
    changed = [name for name, text in wanted.items() if there.get(name) != text]
    dropped = [name for name in there if name not in wanted]
    for name in (*changed, *dropped):
        before, after = (None if text is None else section(name, text) for text in (there.get(name), wanted.get(name)))
        record = {"name": name, "before": before and "\n".join(before), "after": after and "\n".join(after)}
        out.record(record, difference(before or [], after or []))
    out.flush()
    done = 0

    def story() -> str:
        names = [*changed, *dropped]
        at = f", not that of {names[done]}" if done < len(names) else ""
        return f"{done} of {len(names)} changes made{at}; call it again to make the rest"

    with reporting(story):
        for name in () if dry_run else (*changed, *dropped):
            if name in wanted:
                client.set_schedule_text(name, wanted[name])
            else:
                client.drop_schedule(name)
            done += 1
    if not changed and not dropped:
        note("nothing to change")
    elif dry_run:
        note("nothing was changed: this was a dry run")


def read_file(file: IO[bytes]) -> dict[str, Document]:
    """Read a file of schedules. Raises Failure: something is wrong with it."""
    data = file.read()
    try:
        return read(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise wrong(file, data.count(b"\n", 0, error.start) + 1, "this is not UTF-8") from error
    except ScheduleError as error:
        raise wrong(file, error.line, error.why + HINT) from error


for each in (set_, show, list_, next_, fire, pause, resume, drop, apply):
    schedule.add_command(each)
