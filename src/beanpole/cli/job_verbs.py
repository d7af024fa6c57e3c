"""``beanpole delete|release|bury|kick|hold|change|snooze|fail``: what is done to jobs by their ids.

What each does, and what can be given with it, is a row of :mod:`beanpole.operations.table`. A job that another client
has reserved is in that client's hands alone, and the server says NOT_FOUND.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import click

from beanpole.cli.common import COUNT, ID, TARGET, Output, Server, verb
from beanpole.cli.errors import exit_code_of, missing, note, sentence_of
from beanpole.cli.inspect import all_tubes
from beanpole.cli.options import REASON, given_options
from beanpole.cli.quantities import SECONDS
from beanpole.client import Client, JobInfo, StatsJob
from beanpole.client.extensions import RESTING
from beanpole.errors import ConnectionLostError, ExitCode, NotFoundError, UnknownCommandError
from beanpole.limits import PRI_MAX
from beanpole.operations import jobs as acts
from beanpole.operations.jobs import Outcome
from beanpole.operations.listing import Filter, count_of, jobs_of, need, with_reason
from beanpole.operations.plan import pieces, run, walk
from beanpole.operations.table import OPERATIONS

IDS = click.argument("ids", type=ID, nargs=-1, required=True, metavar="ID...")


def why(outcome: Outcome, do: str) -> str:
    id, state = outcome.id, outcome.state
    if outcome.refusal:
        return f"job {id}: {outcome.refusal}" + (f": {sentence_of(outcome.error)}" if outcome.error else "")
    if isinstance(outcome.error, UnknownCommandError):
        return f"job {id}: the server does not know reserve-job (beanstalkd does since version 1.12)"
    if state is None and outcome.error is not None:
        return f"job {id}: {sentence_of(outcome.error)}"
    if not state:
        return f"there is no job {id}"
    if state == "reserved":
        nobody, other = "and nobody can kick a reserved job", f"by another client, and only that one can {do} it"
        return f"job {id} is reserved, {nobody}" if do == "kick" else f"job {id} is reserved {other}"
    return f"job {id} is {state}: there is nothing to {do}"


def report(out: Output, do: str, done: str | Callable[[Any], str], outcomes: Sequence[Outcome]) -> ExitCode:
    """Write the result for each job; return the exit code, which is that of the first error.

    `done` is what a job is afterwards, or says so of what the command has returned. Raises ConnectionLostError.
    """
    code = ExitCode.OK
    for each in outcomes:
        if each.is_done:
            now = done if isinstance(done, str) else done(each.value)
            out.record({"id": each.id, "result": now}, f"{each.id} {now}")
            continue
        if isinstance(each.error, ConnectionLostError):
            raise each.error
        out.flush()
        note(why(each, do))
        code = code or exit_code_of(each.error)
    return code


def act_on(
    client: Client[bytes],
    out: Output,
    do: str,
    ids: Sequence[int],
    given: Mapping[str, Any] | None = None,
    *,
    done: str | Callable[[Any], str] | None = None,
) -> ExitCode:
    """Do an operation to jobs by their ids, some at a time, and write what became of each."""
    operation, code = OPERATIONS[do], ExitCode.OK
    assert operation.act is not None, "it is about jobs"
    for piece in pieces(ids):
        outcomes = run(client, operation.act(given or {}, [JobInfo(id) for id in piece]))
        code = report(out, do, done or operation.done, outcomes) or code
    return code


# --- Of a job that nobody has to hold ---------------------------------------------------------------------------------


@verb("delete")
@click.argument("what", type=TARGET, nargs=-1, required=True, metavar="TUBE|ID...")
@REASON
def delete(server: Server, out: Output, what: tuple[int | str, ...], reason: str) -> ExitCode:
    """Delete jobs that are ready, delayed or buried.

    A job that is reserved can only be deleted by the client that reserved it; "beanpole cancel" asks nobody. A TUBE is
    for --reason: of all its jobs those are deleted whose reason has the text. "beanpole clear" deletes all of them.
    """
    if not reason and (tubes := [each for each in what if isinstance(each, str)]):
        raise click.UsageError(f"{tubes[0]} is a tube: give --reason, or call beanpole clear")
    client = server.client()
    code = act_on(client, out, "delete", chosen(client, [each for each in what if isinstance(each, int)], reason))
    for tube in what:
        if isinstance(tube, str):
            for piece in with_that_reason(client, tube, Filter(RESTING, reason=reason)):
                code = act_on(client, out, "delete", [job.id for job in piece]) or code
    return code


@verb("cancel")
@click.argument("what", type=TARGET, nargs=-1, required=True, metavar="ID...|TUBE")
@click.option("--key", default="", help="With a TUBE: the job that has this key.")
def cancel(server: Server, out: Output, what: tuple[int | str, ...], key: str) -> ExitCode:
    """Delete jobs that are not to be done any more, also those that workers have. The server must know cancel-job.

    A worker hears of it when it touches the job, or has finished it; one whose handler is cancellable within five
    seconds. A job is named by its ID, or by its tube and its key.
    """
    tubes = [each for each in what if isinstance(each, str)]
    if bool(key) != bool(tubes) or (tubes and len(what) > 1):
        raise click.UsageError("give IDs, or a TUBE and --key")
    client = server.client()
    if not key:
        run(client, need("cancel-job"))
        return act_on(client, out, "cancel", [each for each in what if isinstance(each, int)])
    with missing(f"no job of {tubes[0]} has the key {key}"):
        id = client.cancel_key(tubes[0], key)
    out.record({"id": id, "result": "cancelled"}, f"{id} cancelled")
    return ExitCode.OK


def chosen(client: Client[bytes], ids: Sequence[int], reason: str) -> Sequence[int]:
    """Return those of some jobs whose reason has a text; all without one."""
    return run(client, with_reason(ids, reason)) if reason and ids else ids


def with_that_reason(client: Client[bytes], tube: str, wanted: Filter) -> Iterator[list[JobInfo]]:
    """Return the jobs of a tube whose reason has a text, some at a time. Raises Failure: there is no such tube."""
    with missing(f"there is no tube {tube}"):
        run(client, count_of(tube, wanted.states))
    yield from walk(client, jobs_of(tube, wanted))


@verb("kick")
@click.argument("what", type=TARGET, nargs=-1, metavar="[TUBE|ID]...")
@click.option("--count", type=COUNT, help="The most jobs of a TUBE.  [default: 1]")
@click.option("--all", "is_all", is_flag=True, help="All jobs of a TUBE; without one, the buried jobs of every tube.")
@REASON
def kick(
    server: Server, out: Output, what: tuple[int | str, ...], count: int | None, reason: str, *, is_all: bool
) -> ExitCode:
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
        kick_buried(client, out, reason)
    count = PRI_MAX if is_all else count or 1
    for each in what:
        if isinstance(each, str):
            if each not in client.tubes():  # to use it would make it
                note(f"there is no tube {each}")
                code = code or ExitCode.NOT_FOUND
                continue
            kicked = kick_tube(client, each, ("buried", "delayed"), count, reason)
            out.record({"tube": each, "kicked": kicked}, f"{kicked} of {each} kicked")
    ids = [each for each in what if isinstance(each, int)]
    return act_on(client, out, "kick", chosen(client, ids, reason)) or code


def kick_tube(client: Client[bytes], tube: str, states: Sequence[str], count: int, reason: str) -> int:
    """Make jobs of a tube ready; return how many."""
    if not reason:
        with client.using(tube):
            return client.kick(count)
    for state in states:
        kicked = 0
        for jobs in with_that_reason(client, tube, Filter((state,), count, reason=reason)):
            kicked += sum(each.is_done for each in run(client, acts.kick({}, jobs)))
        if kicked:
            return kicked
    return 0


def kick_buried(client: Client[bytes], out: Output, reason: str) -> None:
    """Make the buried jobs of every tube ready. Delayed ones stay: their time was chosen."""
    with_some = [each for each in all_tubes(client) if each.current_jobs_buried]
    for each in with_some:
        kicked = kick_tube(client, each.name, ("buried",), each.current_jobs_buried, reason)
        out.record({"tube": each.name, "kicked": kicked}, f"{kicked} of {each.name} kicked")
    if not with_some:
        note("no tube has a buried job")


@verb("change")
@IDS
@given_options("change")
@click.option("--body", help='Their new body; "-" is standard input.')
@click.option("-f", "--file", type=click.File("rb"), help="A file that is their new body.")
def change(
    server: Server, out: Output, *, ids: tuple[int, ...], body: str | None, file: IO[bytes] | None, **given: Any
) -> ExitCode:
    """Change jobs that nobody has reserved; they keep their ids, and what no option names.

    The server must know change-job, and change-body for a new body.
    """
    if body is not None and file is not None:
        raise click.UsageError("--body and --file are the same thing")
    if body is None and file is None and all(value is None for value in given.values()):
        raise click.UsageError("nothing to change: give an option")
    data = None if body is None else sys.stdin.buffer.read() if body == "-" else os.fsencode(body)
    data = data if file is None else file.read()
    return act_on(server.client(), out, "change", ids, {**given, "body": data})


# --- Of a job that is reserved here first -----------------------------------------------------------------------------


@verb("release")
@IDS
@given_options("release")
def release(server: Server, out: Output, *, ids: tuple[int, ...], **given: Any) -> ExitCode:
    """Make jobs ready, or delay them, whether they are ready, delayed or buried.

    This is how a job gets another priority or delay. A job that is reserved can only be released by the client that
    reserved it. The job is reserved by its id for a moment, which counts as a reserve.
    """
    return act_on(server.client(), out, "release", ids, given)


@verb("bury")
@IDS
@given_options("bury")
def bury(server: Server, out: Output, *, ids: tuple[int, ...], **given: Any) -> ExitCode:
    """Put jobs aside that are ready or delayed, until somebody kicks them.

    A job that is reserved can only be buried by the client that reserved it. The job is reserved by its id for a
    moment, which counts as a reserve.
    """
    return act_on(server.client(), out, "bury", ids, given)


@verb("snooze")
@IDS
@given_options("snooze")
def snooze(server: Server, out: Output, *, ids: tuple[int, ...], **given: Any) -> ExitCode:
    """Put jobs off, which does not count as an attempt. The server must know snooze-job.

    A job that is reserved can only be put off by the client that reserved it. The job is reserved by its id for a
    moment, which counts as a reserve.
    """
    client = server.client()
    run(client, need("snooze-job"))
    return act_on(client, out, "snooze", ids, given, done="snoozed")


@verb("fail")
@IDS
@given_options("fail")
@click.option("--dead", is_flag=True, help="They are dead, whatever attempts are left.")
def fail(server: Server, out: Output, *, ids: tuple[int, ...], **given: Any) -> ExitCode:
    """Let an attempt at jobs fail, as a worker does, and say which of them are dead. The server must know fail-job.

    A job that is reserved can only be failed by the client that reserved it. The job is reserved by its id for a
    moment, which counts as a reserve.
    """
    client = server.client()
    run(client, need("fail-job"))
    return act_on(client, out, "fail", ids, given, done=lambda is_dead: "dead" if is_dead else "failed")


@verb("hold")
@click.argument("id", type=ID)
@click.option("--for", "hold_s", type=SECONDS, help="How long to hold it.  [default: until Ctrl-C]")
def hold(server: Server, out: Output, id: int, hold_s: int | None) -> ExitCode:
    """Hold the job ID: reserve it, and touch it again and again, so that no worker gets it.

    Afterwards it is ready, delayed or buried as it was before. If this command is killed, the job is ready. A job that
    is reserved is held by the client that reserved it.
    """
    client = server.client()
    try:
        before = client.stats_job(id)
        client.reserve_job(id)
    except (NotFoundError, UnknownCommandError) as error:
        (outcome,) = run(client, acts.explained([Outcome(id, error)]))
        note(why(outcome, "hold"))
        return exit_code_of(error)
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
