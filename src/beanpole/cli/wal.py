"""``beanpole wal``: look into a data directory, and repair what damage left of it.

Only options and sentences are here; `beanpole.log.tools` does the work.
"""

import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beanpole.cli.wrapping import SETTINGS, wrapped
from beanpole.errors import BeanpoleError, ExitCode, StartError
from beanpole.server.logs import visible

if TYPE_CHECKING:
    from beanpole.log.tools.report import Report
    from beanpole.log.tools.snapshot import Snapshot

PROGRESS_BYTES = 67_108_864  # of a log: with fewer, a progress bar would be over in half a second

EXIT_CODES = """\b
Exit codes:
  0   nothing is wrong, or salvage is done
  1   damage was found, or the log can't be read or written
  5   wrong arguments
"""

EXIT_CODES_SALVAGE = EXIT_CODES + "  10  a server uses the directory\n"


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES_SALVAGE)
def wal() -> None:
    """Look into a data directory of the server (its -b), and repair what damage left.

    Only salvage writes. The others may look while a server uses the directory.
    """


def verb(epilog: str = EXIT_CODES) -> Callable[[Callable[..., ExitCode]], click.Command]:
    """Make a verb of a function: DIR and --json belong to each, and what goes wrong is one line."""

    def decorate(function: Callable[..., ExitCode]) -> click.Command:
        @functools.wraps(function)
        def run(**given: Any) -> ExitCode:
            try:
                return function(**given)
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return ExitCode.FAILED
            except StartError:
                raise
            except (BeanpoleError, OSError) as error:
                raise click.ClickException(str(error)) from error

        path = click.Path(exists=True, file_okay=False, path_type=Path)
        command = wal.command(function.__name__, epilog=epilog, context_settings=SETTINGS)
        argument = click.argument("directory", metavar="DIR", type=path)
        return command(argument(click.option("--json", "as_json", is_flag=True, help="Write JSON.")(run)))

    return decorate


@contextmanager
def progress(snapshot: "Snapshot", label: str, times: int = 1) -> Iterator[None]:
    """Show how far the reading of a large log is, which is read so many times, on a terminal."""
    total = sum(snapshot.sizes.values()) * times
    if total < PROGRESS_BYTES or not sys.stderr.isatty():
        yield
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        snapshot.on_read = bar.update
        yield


def write(found: "Report", lines: Callable[["Report"], Iterator[str]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in lines(found):
            click.echo(wrapped(line))


def lines_of_use(found: "Report") -> Iterator[str]:
    """Return the line that a server is at work, if one is."""
    if found["in_use_by"] is not None:
        yield f"The log is in use by process {found['in_use_by']}: what it is writing at its end does not count."


def lines_of_problems(found: "Report") -> Iterator[str]:
    for each in found["problems"]:
        place = f"{each['file']} at byte {each['offset']}: " if each["file"] else ""
        yield f"{place}{each['what']} (a start: {each['start']})"


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def kept(found: "Report") -> str:
    """Return how many jobs a log holds, and how many schedules if there is one."""
    jobs = count(found["jobs"], "job")
    return f"{jobs} and {count(found['schedules'], 'schedule')}" if found["schedules"] else jobs


# --- check ------------------------------------------------------------------------------------------------------------


@verb()
def check(directory: Path, *, as_json: bool) -> ExitCode:
    """Look whether a log is whole.

    Every header, checksum, number and end is looked at; then the log is replayed as a start of the server would, and
    the jobs are compared with each other. Says for each problem the file, the byte, and what a start would do.
    """
    from beanpole.log.tools import inspect, report
    from beanpole.log.tools.snapshot import Snapshot

    with closing(Snapshot(directory)) as snapshot, progress(snapshot, "Checking", times=2):
        found = report.of_check(inspect.check(snapshot))
    write(found, functools.partial(lines_of_check, directory), as_json=as_json)
    return ExitCode.FAILED if found["damaged"] else ExitCode.OK


def lines_of_check(directory: Path, found: "Report") -> Iterator[str]:
    yield from lines_of_use(found)
    yield f"{directory}: {count(found['segments'], 'segment')}, {found['bytes']} bytes, {found['records']} records"
    yield from lines_of_problems(found)
    if found["start"] == "refuses":
        yield f"The server would refuse to start: {found['reason']}."
        yield f"See what can be kept: beanpole wal salvage --dry-run {directory}"
        return
    jobs = kept(found)
    if found["damaged"]:
        yield f"The server would start, with {jobs}."
    elif found["start"] == "repairs":
        yield f"Nothing that was durable is damaged. The server would repair the end and start with {jobs}."
    elif found["in_use_by"] is not None:
        yield f"Nothing is damaged, and the log holds {jobs}."
    else:
        yield f"Nothing is wrong. The server would start with {jobs}."


# --- dump -------------------------------------------------------------------------------------------------------------


@verb()
@click.option("--bodies", is_flag=True, help="Show the bodies of jobs, and the documents of schedules.")
@click.option("--job", type=click.IntRange(0), metavar="ID", help="Only records of this job.")
@click.option("--tube", metavar="NAME", help="Only records of this tube and of jobs that are known to be in it.")
def dump(directory: Path, *, as_json: bool, bodies: bool, job: int | None, tube: str | None) -> ExitCode:
    """Write every record, one a line: byte, kind, and what it says.

    Times are UTC. With --json each line is an object, times are nanoseconds since 1970, and a body that is not UTF-8
    stands in body_base64.
    """
    from beanpole.log.tools import inspect, report
    from beanpole.log.tools.snapshot import Snapshot

    wanted = inspect.Filter(job, tube.encode() if tube is not None else None)

    def visit(segment: inspect.SegmentSurvey, data: bytes) -> None:
        if not as_json:
            sys.stdout.write(f"{segment.name}\n")
        for line in inspect.lines(segment, data):
            if wanted(line):
                record = report.of_record(line, bodies=bodies)
                sys.stdout.write(f"{json.dumps(record) if as_json else text_of(record)}\n")

    with closing(Snapshot(directory)) as snapshot, progress(snapshot, "Reading"):
        result = inspect.survey(snapshot, visit)
        sys.stdout.flush()
    return ExitCode.FAILED if result.damaged else ExitCode.OK


def text_of(record: "Report") -> str:
    if record["kind"] == "damage":
        return f"{record['offset']:>10} damage  {record['bytes']} bytes are no good record"
    parts = [f"{record['offset']:>10} {record['kind']:<7}"]
    for name, value in itertools.islice(record.items(), 4, None):
        if name == "clock_lead_ns":
            parts.append(f"clock_lead={value / 1e9:+.6f}s")
        elif name[-3:] == "_ns":
            if value:
                seconds, rest_ns = divmod(value, 1_000_000_000)
                parts.append(f"{name[:-3]}={second_text(seconds)}.{rest_ns:09}Z")
        elif name in {"body", "document"}:
            parts.append(f"{name}={value!r}")
        elif name == "rules":
            parts.append(f"rules={'; '.join(value.splitlines())}")
        elif value or name != "bury_order":
            parts.append(f"{name}={visible(value, kept='') if isinstance(value, str) else value}")
    return " ".join(parts)


@functools.lru_cache(1024)
def second_text(seconds: int) -> str:
    """Return a second since 1970 as UTC; one that no calendar has, as a number."""
    from datetime import UTC, datetime

    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(seconds)


# --- stat -------------------------------------------------------------------------------------------------------------


@verb()
def stat(directory: Path, *, as_json: bool) -> ExitCode:
    """Report how large a log is and what of it is alive.

    A job is alive in the segment that holds it whole. Of a damaged log, what is good is counted.
    """
    from beanpole.log.tools import report
    from beanpole.log.tools.snapshot import Snapshot

    with closing(Snapshot(directory)) as snapshot, progress(snapshot, "Reading"):
        found = report.of_stat(snapshot)
    write(found, lines_of_stat, as_json=as_json)
    return ExitCode.FAILED if found["damaged"] else ExitCode.OK


def lines_of_stat(found: "Report") -> Iterator[str]:
    """Return a table of the segments, and what else a log holds; --json counts the kinds of records of each."""
    from beanpole.observe.units import count, size

    yield from lines_of_use(found)
    rows = [("segment", "size", "used", "live jobs", "their size", "records")]
    for each in [*found["segments"], {**found, "name": "all", "live_jobs": found["jobs"]}]:
        disk, used, live = (size(each[key]) for key in ("bytes", "used_bytes", "live_bytes"))
        rows.append((each["name"], disk, used, count(each["live_jobs"]), live, count(sum(each["records"].values()))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        columns = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *columns])
    kinds = ", ".join(f"{count(number)} {kind}" for kind, number in found["records"].items() if number)
    yield f"Records by kind: {kinds or 'none'}"
    ratio = found["bytes_per_live_byte"]
    shown = "none is alive" if ratio is None else count(round(ratio)) if ratio >= 10 else f"{ratio:.1f}"
    yield f"Bytes on disk for each live byte: {shown}"
    yield f"Files prepared for later: {found['spares']}"
    place = f"segment {found['durable_segment']}, byte {found['durable_bytes']}"
    yield f"Durable, when the last turn was written: {place}"
    yield f"Next job id: {found['next_job_id']}"
    if found["shard"]:
        yield f"Shard: {','.join(map(str, found['shard']))}"
    if found["schedules"]:
        yield f"Schedules: {count(found['schedules'])}"
    yield from lines_of_problems(found)


# --- salvage ----------------------------------------------------------------------------------------------------------


@verb(EXIT_CODES_SALVAGE)
@click.option("--dry-run", is_flag=True, help="Only say what would be kept and what is lost.")
def salvage(directory: Path, *, as_json: bool, dry_run: bool) -> ExitCode:
    """Keep what is good in a damaged log, so that the server starts.

    The damaged files stay as they are, in a folder damaged.N of DIR. Nothing is done to a log that is not damaged, and
    none to one that a server uses. May be interrupted and called again.

    Reported are every range of bytes that is lost, every job of which only changes are left, and every schedule of
    which only fires are left. A job that was put in
    a lost range is lost without a trace; a job that was deleted in one is back; one that was changed there is as it
    was before.
    """
    from beanpole.log.files import disk
    from beanpole.log.tools import report
    from beanpole.log.tools.salvage import salvage as make

    opened = disk.open_directory(directory, create=False)
    lock_fd = -1 if dry_run else disk.lock(opened)
    try:
        done = make(opened, dry_run=dry_run, reading=lambda snapshot: progress(snapshot, "Reading"))
    finally:
        os.close(opened.fd)
        if lock_fd >= 0:
            os.close(lock_fd)
    found = report.of_salvage(done, dry_run=dry_run)
    write(found, functools.partial(lines_of_salvage, directory), as_json=as_json)
    return ExitCode.FAILED if done.needed and dry_run else ExitCode.OK


def lines_of_salvage(directory: Path, found: "Report") -> Iterator[str]:
    if not found["needed"]:
        yield f"Nothing in {directory} is damaged, and nothing was done. The server starts with it."
        return
    for each in found["problems"]:
        lost = f"; lost are {each['lost_bytes']} bytes" if each["lost_bytes"] and each["damage"] else ""
        yield f"{each['file']} at byte {each['offset']}: {each['what']}{lost}"
    for id in found["lost_jobs"]:
        yield f"Job {id} is lost: only changes of it are left."
    for name in found["lost_schedules"]:
        yield f"Schedule {visible(name, kept='')} is lost: only fires of it are left."
    are = "would be" if found["dry_run"] else "is" if found["jobs"] == 1 and not found["schedules"] else "are"
    yield f"{kept(found)} {are} kept."
    if found["lost_bytes"]:
        yield "Jobs put in a lost range are lost; jobs deleted in one are back; other jobs may lack their last changes."
    if found["done"]:
        yield f"The new log is {', '.join(found['segments'])}. The old one is in {found['kept_in']}."
