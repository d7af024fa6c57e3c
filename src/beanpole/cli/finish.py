"""``beanpole delete|release|bury|kick|hold``: finish jobs by their ids.

A job that another client has reserved is in that client's hands alone, and the server says NOT_FOUND. One that nobody
has reserved is reserved here first, by ``reserve-job``, if the command wants that.
"""

import signal
from collections.abc import Callable, Sequence
from typing import Any

import click

from beanpole.cli.common import COUNT, ID, PRIORITY, TARGET, Output, Server, verb
from beanpole.cli.errors import exit_code_of, note, sentence_of
from beanpole.cli.inspect import all_tubes
from beanpole.cli.quantities import SECONDS
from beanpole.client import Client, Result, StatsJob
from beanpole.client.errors import NotFoundError, UnknownCommandError
from beanpole.client.pipeline import Pipeline
from beanpole.errors import BeanpoleError, ExitCode
from beanpole.limits import PRI_MAX

IDS = click.argument("ids", type=ID, nargs=-1, required=True, metavar="ID...")
PIECE = 1_000
"""Jobs that go in one round trip."""

Issue = Callable[[Pipeline[bytes], int], Result[Any]]


def together(client: Client[bytes], ids: Sequence[int], issue: Issue) -> list[Result[Any]]:
    """Send one command for each id, all in one round trip; return the results, some of which may be errors."""
    with client.pipeline(raise_errors=False) as pipeline:
        return [issue(pipeline, id) for id in ids]


def why(client: Client[bytes], id: int, do: str, error: BeanpoleError) -> str:
    """Explain why a command on a job failed."""
    if isinstance(error, UnknownCommandError):
        return f"job {id}: the server does not know reserve-job (beanstalkd does since version 1.12)"
    if not isinstance(error, NotFoundError):
        return f"job {id}: {sentence_of(error)}"
    try:
        state = client.stats_job(id).state
    except NotFoundError:
        return f"there is no job {id}"
    if state == "reserved" and do == "kick":
        return f"job {id} is reserved, and nobody can kick a reserved job"
    if state == "reserved":
        return f"job {id} is reserved by another client, and only that one can {do} it"
    return f"job {id} is {state}: there is nothing to {do}"


def report(
    client: Client[bytes],
    out: Output,
    do: str,
    done: str | Callable[[Any], str],
    results: Sequence[tuple[int, Result[Any]]],
) -> ExitCode:
    """Write the result for each job; return the exit code, which is that of the first error.

    `done` is what a job is afterwards, or says so of what the command has returned.
    """
    code = ExitCode.OK
    for id, result in results:
        if result.error is None:
            now = done if isinstance(done, str) else done(result.result())
            out.record({"id": id, "result": now}, f"{id} {now}")
        else:
            out.flush()
            note(why(client, id, do, result.error))
            code = code or exit_code_of(result.error)
    return code


def pieces(ids: Sequence[int]) -> list[Sequence[int]]:
    """Cut a list of ids into round trips."""
    return [ids[start : start + PIECE] for start in range(0, len(ids), PIECE)]


# --- Of a job that nobody has to hold ---------------------------------------------------------------------------------


@verb("delete")
@IDS
def delete(server: Server, out: Output, ids: tuple[int, ...]) -> ExitCode:
    """Delete jobs that are ready, delayed or buried.

    A job that is reserved can only be deleted by the client that reserved it.
    """
    client, code = server.client(), ExitCode.OK
    for piece in pieces(ids):
        results = together(client, piece, lambda pipeline, id: pipeline.delete(id))
        code = report(client, out, "delete", "deleted", list(zip(piece, results, strict=True))) or code
    return code


@verb("kick")
@click.argument("what", type=TARGET, nargs=-1, metavar="[TUBE|ID]...")
@click.option("--count", type=COUNT, help="The most jobs of a TUBE.  [default: 1]")
@click.option("--all", "is_all", is_flag=True, help="All jobs of a TUBE; without one, the buried jobs of every tube.")
def kick(server: Server, out: Output, what: tuple[int | str, ...], count: int | None, *, is_all: bool) -> ExitCode:
    """Make buried or delayed jobs ready.

    Of a TUBE, up to --count buried jobs become ready, or delayed ones if none is buried. An ID is one job. A tube
    whose name is a number is written tube:123.
    """
    if is_all and count is not None:
        raise click.UsageError("--count and --all say two things")
    if not what and not is_all:
        raise click.UsageError("name a TUBE or an ID, or give --all")
    client, code = server.client(), ExitCode.OK
    if not what:
        kick_buried(client, out)
    count = PRI_MAX if is_all else count or 1
    for each in what:
        if isinstance(each, str):
            if each not in client.tubes():  # to use it would make it
                note(f"there is no tube {each}")
                code = code or ExitCode.NOT_FOUND
                continue
            with client.using(each):
                kicked = client.kick(count)
            out.record({"tube": each, "kicked": kicked}, f"{kicked} of {each} kicked")
    for piece in pieces([each for each in what if isinstance(each, int)]):
        results = together(client, piece, lambda pipeline, id: pipeline.kick_job(id))
        code = report(client, out, "kick", "kicked", list(zip(piece, results, strict=True))) or code
    return code


def kick_buried(client: Client[bytes], out: Output) -> None:
    """Make the buried jobs of every tube ready. Delayed ones stay: their time was chosen."""
    with_some = [each for each in all_tubes(client) if each.current_jobs_buried]
    for each in with_some:
        with client.using(each.name):
            kicked = client.kick(each.current_jobs_buried)
        out.record({"tube": each.name, "kicked": kicked}, f"{kicked} of {each.name} kicked")
    if not with_some:
        note("no tube has a buried job")


# --- Of a job that is reserved here first -----------------------------------------------------------------------------


def reserved(client: Client[bytes], ids: Sequence[int]) -> dict[int, StatsJob | BeanpoleError]:
    """Reserve jobs by their ids; return how each was before, or why it could not be reserved."""
    found: dict[int, StatsJob | BeanpoleError] = {}
    with client.pipeline(raise_errors=False) as pipeline:
        asked = [(id, pipeline.stats_job(id), pipeline.reserve_job(id)) for id in ids]
    for id, before, taken in asked:
        found[id] = taken.error or before.error or before.result()
    return found


def finish(
    client: Client[bytes],
    out: Output,
    words: tuple[str, str | Callable[[Any], str]],
    ids: Sequence[int],
    issue: Callable[[Pipeline[bytes], StatsJob], Result[Any]],
) -> ExitCode:
    """Reserve jobs and finish them; `words` are what is done, and what a job is afterwards (see `report`)."""
    code = ExitCode.OK
    for piece in pieces(ids):
        found = reserved(client, piece)
        results: list[tuple[int, Result[Any]]] = []
        with client.pipeline(raise_errors=False) as pipeline:
            for id in piece:
                before = found[id]
                if isinstance(before, StatsJob):
                    results.append((id, issue(pipeline, before)))
                else:
                    results.append((id, Result()))
                    results[-1][1].fail(before)
        code = report(client, out, *words, results) or code
    return code


@verb("release")
@IDS
@click.option("--priority", type=PRIORITY, help="Their new priority.  [default: the one they have]")
@click.option("--delay", type=SECONDS, default=0, show_default=True, help="How long until they are ready.")
def release(server: Server, out: Output, ids: tuple[int, ...], priority: int | None, delay: int) -> ExitCode:
    """Make jobs ready, or delay them, whether they are ready, delayed or buried.

    This is how a job gets another priority or delay. A job that is reserved can only be released by the client that
    reserved it. The job is reserved by its id for a moment, which counts as a reserve.
    """

    def issue(pipeline: Pipeline[bytes], before: StatsJob) -> Result[Any]:
        return pipeline.release(before.id, before.pri if priority is None else priority, delay)

    return finish(server.client(), out, ("release", "released"), ids, issue)


@verb("bury")
@IDS
@click.option("--priority", type=PRIORITY, help="Their new priority.  [default: the one they have]")
def bury(server: Server, out: Output, ids: tuple[int, ...], priority: int | None) -> ExitCode:
    """Put jobs aside that are ready or delayed, until somebody kicks them.

    A job that is reserved can only be buried by the client that reserved it. The job is reserved by its id for a
    moment, which counts as a reserve.
    """

    def issue(pipeline: Pipeline[bytes], before: StatsJob) -> Result[Any]:
        return pipeline.bury(before.id, before.pri if priority is None else priority)

    return finish(server.client(), out, ("bury", "buried"), ids, issue)


@verb("hold")
@click.argument("id", type=ID)
@click.option("--for", "hold_s", type=SECONDS, help="How long to hold it.  [default: until Ctrl-C]")
def hold(server: Server, out: Output, id: int, hold_s: int | None) -> ExitCode:
    """Hold the job ID: reserve it, and touch it again and again, so that no worker gets it.

    Afterwards it is ready, delayed or buried as it was before. If this command is killed, the job is ready. A job that
    is reserved is held by the client that reserved it.
    """
    client = server.client()
    before = reserved(client, [id])[id]
    if not isinstance(before, StatsJob):
        note(why(client, id, "hold", before))
        return exit_code_of(before)
    stops = {signal.SIGINT, signal.SIGTERM}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # so that none comes within a command
    try:
        note(f"job {id} is held" + ("; Ctrl-C gives it back" if hold_s is None else f" for {hold_s} s"))
        left_s = float("inf") if hold_s is None else float(hold_s)
        while left_s > 0:
            client.touch(id)
            step_s = min(left_s, before.ttr / 2)
            left_s = 0 if signal.sigtimedwait(stops, step_s) else left_s - step_s
        give_back(client, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    out.record({"id": id, "result": before.state}, f"{id} {before.state} again")
    return ExitCode.OK


def give_back(client: Client[bytes], before: StatsJob) -> None:
    """Finish a job that is reserved here, so that it is as it was."""
    if before.state == "buried":
        client.bury(before.id, before.pri)
    else:
        client.release(before.id, before.pri, before.time_left if before.state == "delayed" else 0)
