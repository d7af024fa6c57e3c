"""``beanpole export`` and ``beanpole import``: jobs as lines of JSON, and back; and crontabs as schedules.

A line is an object: id, tube, state, pri, ttr, delay (what is left of it), what there is of an option of ``put`` that
the server says (a key), of the reason of its last failure and the moment of its death, and the body as ``body`` if it
is UTF-8, or else as ``body_base64``. Import needs a body; it takes what a put would for the rest.
"""

import base64
import json
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click

from beanpole import limits
from beanpole.cli.common import TUBE, Number, Output, Server, body_fields, jobs_text, progress, verb, write_all
from beanpole.cli.errors import Failure, exit_code_of, explained, missing, note, reporting
from beanpole.cli.list import listed, place_of
from beanpole.cli.options import scan_options
from beanpole.cli.quantities import ZONE, zone_of_machine
from beanpole.cli.tube_verbs import Progress, enter, report_reserved
from beanpole.cli.wrapping import json_text
from beanpole.client import Client, JobInfo
from beanpole.client import limits as client_limits
from beanpole.client.extensions import RESTING, STATES, meta_bytes
from beanpole.errors import ArgumentError, DrainingError, ExitCode, OutOfMemoryError
from beanpole.operations.batches import KEPT, batches, delete, put_copies, raise_lost
from beanpole.operations.listing import Filter, count_of, with_bodies
from beanpole.operations.plan import run, walk

PIECE = 1_000  # jobs that are imported in one round trip
SAID = (*KEPT, "reason", "died")  # what stands in the line of a job only if there is something to say


# --- Export -----------------------------------------------------------------------------------------------------------


@verb("export")
@click.argument("tube", type=TUBE)
@click.option(
    "-o", "--output", type=click.File("ab", lazy=False), help="Write to this new file.  [default: standard output]"
)
@click.option("--append", is_flag=True, help="Append to the file if there is one.")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated.")
@click.option("--remove", is_flag=True, help="Delete each job once its line is on disk.")
@scan_options
def export(
    server: Server,
    out: Output,
    *,
    tube: str,
    output: IO[bytes] | None,
    append: bool,
    states: tuple[str, ...],
    remove: bool,
    **scan: Any,
) -> ExitCode:
    """Write the jobs of TUBE, each as a line of JSON, with its key, its headers and the reason of its last failure.

    Nothing is changed: the jobs are found by their ids, as "beanpole list" does it. Jobs that are put or finished
    during the export may or may not be in it.

    With --remove, each job is deleted once its line is written to the file and synced. NO JOB IS LOST, whatever breaks,
    but if this command is interrupted, UP TO 256 JOBS MAY BE IN THE FILE AND IN THE TUBE, and the last line may be cut
    off: run it again with --append. Jobs that a worker has reserved stay, and so do those that are put during the
    export. The output must be a file: what is written to a pipe is not stored yet.

    Exit code 1: not all jobs were found, or a line could not be written.
    """
    file = output or sys.stdout.buffer
    if output is not None and not append and size_of_file(output):
        raise click.UsageError(f"{output.name} is not empty: name another file, or give --append")
    end_last_line(file)
    if remove:
        if set(states) - set(RESTING) or any(scan[name] is not None for name in ("first", "last")):
            raise click.UsageError("--remove takes jobs that nobody has reserved, whatever their ids")
        return export_and_remove(server, out, file, tube, states or RESTING)
    client = server.client()
    wanted, count = place_of(Filter(states or STATES), **scan), 0
    with missing(f"there is no tube {tube}"):
        total = run(client, count_of(tube, wanted.states))
    try:
        with progress("Exporting", total) as advance:
            for page in listed(client, tube, wanted, with_fields=True):
                jobs = run(client, with_bodies(page, sys.maxsize))
                write_all(file, b"".join(map(line_of, jobs)))
                count += len(jobs)
                advance(len(page))
    finally:
        file.flush()
    report_exported(tube, count)
    return ExitCode.OK


def export_and_remove(server: Server, out: Output, file: IO[bytes], tube: str, states: tuple[str, ...]) -> ExitCode:
    """Write jobs, sync the file, delete them; and so on."""
    if size_of_file(file) is None:
        raise click.UsageError("--remove writes to a file: give --output FILE, or > FILE")
    client = server.client()
    there = enter(client, tube, states)
    out.flush()
    sync_folder(file)
    progress = Progress(
        f"{{}} of {tube} exported and removed",
        "call it again with --append, or >>, to go on",
        "up to {} may be in the file and in the tube",
    )
    with progress.shown("Exporting", sum(there.values())):
        for batch in walk(client, batches(tube, there)):
            progress.pending = len(batch)
            write_all(file, b"".join(map(line_of, batch)))
            file.flush()
            os.fsync(file.fileno())
            run(client, delete(batch))
            progress.add(len(batch))
    report_reserved(client, tube)
    report_exported(tube, progress.done)
    return ExitCode.OK


def size_of_file(file: IO[bytes]) -> int | None:
    """Return how many bytes a file has; None if it is something else, a pipe or a terminal."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def end_last_line(file: IO[bytes]) -> None:
    """End the last line of a file if an export before was stopped in it, so that the next job has its own line."""
    if size_of_file(file):
        with Path(f"/proc/self/fd/{file.fileno()}").open("rb") as reader:
            reader.seek(-1, os.SEEK_END)
            if reader.read() != b"\n":
                write_all(file, b"\n")


def sync_folder(file: IO[bytes]) -> None:
    """Make the entry of a file in its folder durable: it may be a new one, and without it all is lost."""
    path = Path(f"/proc/self/fd/{file.fileno()}").readlink()
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def line_of(job: JobInfo) -> bytes:
    """Return the line of a job, with what is left of its delay."""
    delay = int(job.left or 0) if job.state == "delayed" else 0
    record = {"id": job.id, "tube": job.tube, "state": job.state, "pri": job.pri, "ttr": job.ttr, "delay": delay}
    more = {name: value for name in SAID if (value := getattr(job, name)) is not None}
    return json_text(record | more | body_fields(job.body)).encode() + b"\n"


def report_exported(tube: str, count: int) -> None:
    if sys.stderr.isatty():
        note(f"{jobs_text(count)} of {tube} exported")


# --- Import -----------------------------------------------------------------------------------------------------------


class Place(click.ParamType[str]):
    """A tube, or a file if it is the second or `--tube` is given."""

    name = "place"
    shell_complete = TUBE.shell_complete

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def tube_and_file(tube: str | None, places: Sequence[str]) -> tuple[str | None, str]:
    """Return the tube, if there is one, and the path of the file, of which both may stand without an option."""
    if tube is None and places:
        tube, places = TUBE(places[0]), places[1:]
    if len(places) > 1:
        raise click.UsageError(f"one FILE, please: {' '.join(places)}")
    return tube, places[0] if places else "-"


@verb("import")
@click.argument("places", type=Place(), nargs=-1, metavar="[TUBE] [FILE]")
@click.option("-t", "--tube", type=TUBE, help="The same as TUBE: what stands behind is FILE then.")
@click.option(
    "--crontab",
    type=click.File(encoding="utf-8", errors="surrogateescape"),
    help="Write the schedules of this crontab for review; nothing is put, and no server is asked.",
)
@click.option("--user-column", is_flag=True, help="The crontab has a user behind the times, as in /etc/cron.d.")
@click.option("--zone", type=ZONE, help="Whose time the crontab means.  [default: that of this machine]")
@click.option("--ready", is_flag=True, help="Make them ready, also those that were delayed or buried.")
@click.option(
    "--skip",
    type=Number("n", 0, sys.maxsize),
    default=0,
    show_default=True,
    help="Lines to skip at the beginning.",
)
def import_(
    server: Server,
    out: Output,
    *,
    places: tuple[str, ...],
    tube: str | None,
    crontab: IO[str] | None,
    user_column: bool,
    zone: str | None,
    ready: bool,
    skip: int,
) -> ExitCode:
    """Put the jobs of FILE (or standard input) into TUBE: lines of JSON, as export writes them.

    Body, priority, time to run, key, group and headers are kept. A delayed job is delayed by the rest of its delay, a
    buried one is buried with the reason of its last failure, any other is ready. Ids are new. A line needs "body" or
    "body_base64"; "pri", "ttr", "delay" (seconds), "state", "key", "group", "meta" and "reason" may be left out. One
    that died dies again: it goes on to another tube where the rules of TUBE have dead.

    A line that is not a job, whose key another job has, or that the server refuses, is reported and skipped: exit code
    1. If the import is interrupted, it says how to continue; up to 1000 jobs without a key may then be put a second
    time, and one that was not buried yet is ready after a minute. A server that knows no keys or reasons gets jobs
    without.

    With --crontab, write a file for "beanpole schedule apply": each line of the crontab is a schedule, whose jobs have
    the command as their body and go into TUBE, or else the tube cron. What can't be carried over is a comment with the
    reason: exit code 1. In /etc/crontab, in files of /etc/cron.d, and where a line says root there, the word behind
    the times is the user; a copy needs --user-column.
    """
    tube, path = tube_and_file(tube, places)
    if crontab is not None:
        return convert_crontab(out, crontab, tube or "cron", zone or zone_of_machine(), has_users=user_column)
    if tube is None:
        raise click.UsageError("into which tube? write import TUBE [FILE], or import --tube TUBE [FILE]")
    if zone is not None or user_column:
        raise click.UsageError(f"{'--user-column' if user_column else '--zone'} is about a --crontab")
    file = click.File("rb")(path, ctx=click.get_current_context())
    return import_jobs(server.client(), out, tube, file, ready=ready, skip=skip)


def import_jobs(client: Client[bytes], out: Output, tube: str, file: IO[bytes], *, ready: bool, skip: int) -> ExitCode:
    """Put the jobs of a file into a tube, and say what could not be put."""
    done, refused, first, unsure = 0, 0, skip + 1, 0
    numbered = enumerate(file, 1)
    for _ in islice(numbered, skip):
        pass

    def story() -> str:
        more = f"; up to {jobs_text(unsure)} may be there twice then" if unsure else ""
        return f"imported {jobs_text(done)}; go on with --skip {first - 1}{more}"

    with reporting(story), progress("Importing", size_of(file)) as advance:
        while piece := list(islice(numbered, PIECE)):
            first = piece[0][0]
            jobs, bad = read(piece, ready=ready)
            unsure = len(jobs)
            results = dict(zip(jobs, run(client, put_copies(tube, list(jobs.values()), kept=KEPT)), strict=True))
            raise_lost(list(results.values()))
            put, end, stopped = 0, piece[-1][0] + 1, None
            for number, result in results.items():
                if isinstance(result.error, (DrainingError, OutOfMemoryError)):
                    end, stopped = number, result.error
                    break
                if result.error is not None:
                    bad[number] = explained(client, result.error)
                else:
                    put += 1
            for number in sorted(bad.keys() & range(first, end)):
                note(f"line {number}: {bad[number]}")
            unsure_behind = sum(each.error is None for number, each in results.items() if number > end)
            done, first, unsure = done + put, end, unsure_behind  # in one step, as a signal may end this
            if stopped is not None:
                raise Failure(f"line {end}: {stopped}; {story()}", exit_code_of(stopped))
            refused += len(bad)
            advance(sum(len(line) for _, line in piece))
    out.record({"tube": tube, "imported": done, "refused": refused}, f"{jobs_text(done)} imported into {tube}")
    return ExitCode.FAILED if refused else ExitCode.OK


def convert_crontab(out: Output, file: IO[str], tube: str, zone: str, *, has_users: bool) -> ExitCode:
    """Write a crontab as a file of schedules."""
    from beanpole.schedules.crontab import convert

    path = Path(file.name)
    has_users = has_users or path == Path("/etc/crontab") or path.parent == Path("/etc/cron.d")
    lines, refused = convert(file.read(), zone=zone, tube=tube, has_users=has_users, is_program=shutil.which)
    out.line("\n".join([f"# Times are those of {zone}.", "", *lines]).rstrip())
    if refused:
        note(f"lines that need a look: {refused}; the comments say why")
    return ExitCode.FAILED if refused else ExitCode.OK


def size_of(file: IO[bytes]) -> int | None:
    """Return how many bytes of a file there are to read; None if it is a pipe."""
    size = size_of_file(file)
    return None if size is None else size - file.tell()


def read(piece: Sequence[tuple[int, bytes]], *, ready: bool) -> tuple[dict[int, JobInfo], dict[int, str]]:
    """Return the jobs of some lines by the numbers of these, and what is wrong with the others."""
    jobs: dict[int, JobInfo] = {}
    bad: dict[int, str] = {}
    for number, line in piece:
        try:
            jobs[number] = job_of(json.loads(line), ready=ready)
        except ArgumentError as error:
            bad[number] = f"this is not a job: {error}"
        except (ValueError, RecursionError):
            bad[number] = "this is not a job: it is not JSON"
    return jobs, bad


def job_of(record: Any, *, ready: bool) -> JobInfo:
    """Return the job that an object of JSON describes.

    Raises ArgumentError: it describes none; the text says why.
    """
    if not isinstance(record, dict):
        raise ArgumentError("it is not a JSON object")
    key = next((key for key in ("body", "body_base64") if key in record), None)
    if key is None:
        raise ArgumentError("it has neither body nor body_base64")
    if not isinstance(record[key], str):
        raise ArgumentError(f"{key} must be a string, not {json.dumps(record[key])}")
    try:
        body = record[key].encode() if key == "body" else base64.b64decode(record[key], validate=True)
    except ValueError:
        raise ArgumentError(
            f"{key} is not {'text that can be encoded as UTF-8' if key == 'body' else 'base64'}"
        ) from None
    state = record.get("state", "ready")
    if state not in STATES:
        raise ArgumentError(f"state must be one of {', '.join(STATES)}, not {state!r}")
    pri = number_of(record, "pri", client_limits.PRI_DEFAULT)
    ttr = number_of(record, "ttr", client_limits.TTR_S_DEFAULT)
    delay = 0 if ready else number_of(record, "delay", 0)
    reason = text_of(record, "reason" if "reason" in record else "failed")  # as "beanpole list" calls it
    said: dict[str, Any] = {"reason": reason, "died": record.get("died")}
    said |= {name: (meta_in if name == "meta" else text_of)(record, name) for name in KEPT}
    return JobInfo(0, state="ready" if ready else state, pri=pri, ttr=ttr, left=delay, body=body, **said)


def meta_in(record: dict[str, Any], key: str) -> dict[str, str] | None:
    meta: dict[str, str] | None = record.get(key)
    if meta is not None:
        meta_bytes(meta)
    return meta


def text_of(record: dict[str, Any], key: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{key} must be a string, not {json.dumps(value)}")
    try:
        (value or "").encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise ArgumentError(f"{key} is not text that can be encoded as UTF-8") from None
    return value


def number_of(record: dict[str, Any], key: str, default: int) -> int:
    value = record.get(key, default)
    if type(value) is not int or not 0 <= value <= limits.PRI_MAX:
        raise ArgumentError(f"{key} must be a whole number from 0 to {limits.PRI_MAX}, not {value!r}")
    return value
