"""``beanpole pause|resume|move|redrive|clear``: what is done to a tube, and to its jobs."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

from beanpole.cli.common import TUBE, URL, Output, Server, jobs_text, progress, verb
from beanpole.cli.errors import Failure, exit_code_of, explained, missing, note, reporting, sentence_of
from beanpole.cli.job_verbs import why
from beanpole.cli.options import GROUP, REASON, choice_options, given_options
from beanpole.cli.quantities import SECONDS
from beanpole.client import Client, JobInfo
from beanpole.client.extensions import RESTING
from beanpole.errors import ExitCode, ForbiddenError
from beanpole.operations import batches
from beanpole.operations.batches import of_state, put_copies, raise_lost
from beanpole.operations.listing import Filter, count_of, jobs_of, need
from beanpole.operations.plan import run, walk
from beanpole.operations.table import OPERATIONS, pause_for

PIECE = 10_000  # jobs that a server moves in one command: what is done is done, and progress is seen


class Progress:
    """How far a verb came: a bar on a terminal, and the sentence of who stops it."""

    def __init__(self, done: str, onward: str, doubt: str = "") -> None:
        """Take what is to be said of jobs that are done and of those that are pending, and how to go on."""
        self._sentences = done, doubt
        self._onward = onward
        self._advance: Callable[[int], object] = lambda _: None
        self.done = 0
        self.pending = 0
        """Jobs that may be done or not when the verb is stopped now."""

    @contextmanager
    def shown(self, label: str, total: int) -> Iterator[None]:
        """Show a bar, and have what stops the verb say how far it came. Raises Failure."""
        with reporting(self.sentence), progress(label, total) as self._advance:
            try:
                yield
            except ForbiddenError as error:  # it did nothing, and would do nothing again
                done = self._sentences[0].format(jobs_text(self.done))
                raise Failure(f"{sentence_of(error)}; {done}") from error

    def add(self, number: int) -> None:
        """Count jobs that are done; none is pending then."""
        self.done += number
        self.pending = 0
        self._advance(number)

    def sentence(self) -> str:
        """Return how far it came, and how to go on."""
        done, doubt = self._sentences
        more = f"; {doubt.format(jobs_text(self.pending))}" if self.pending else ""
        return f"{done.format(jobs_text(self.done))}{more}; {self._onward}"


def enter(client: Client[bytes], tube: str, states: tuple[str, ...]) -> dict[str, int]:
    """Use and watch a tube; return how many jobs it has in each of some states. Raises Failure: there is none."""
    with missing(f"there is no tube {tube}"):
        return run(client, batches.enter(tube, states))


def report_reserved(client: Client[bytes], tube: str) -> None:
    """Say how many jobs stay in a tube, as they are reserved."""
    with missing(f"there is no tube {tube}"):
        number = run(client, count_of(tube, ["reserved"]))
    if number:
        note(f"{number} reserved {'job stays' if number == 1 else 'jobs stay'} in {tube}")


# --- Pause ------------------------------------------------------------------------------------------------------------


@verb("pause")
@click.argument("tube", type=TUBE)
@click.option("--for", "pause_s", type=SECONDS, default=3600, show_default=True, help="How long.")
@given_options("pause")
def pause(server: Server, out: Output, tube: str, pause_s: int, group: str | None) -> None:
    """Keep the jobs of TUBE from being reserved.

    Jobs can still be put, looked at, and reserved by their id. A new pause takes the place of an old one. The option
    with (*) needs a server that knows it.
    """
    set_pause(server, out, tube, group, pause_s=pause_s, done="{} is paused for {} s")


@verb("resume")
@click.argument("tube", type=TUBE)
@given_options("resume")
def resume(server: Server, out: Output, tube: str, group: str | None) -> None:
    """End the pause of TUBE. It is no error if there is none."""
    set_pause(server, out, tube, group, pause_s=0, done="{} resumed")


def set_pause(server: Server, out: Output, tube: str, group: str | None, *, pause_s: int, done: str) -> None:
    """Let a tube, or one of its groups, have a pause."""
    given: dict[str, Any] = {} if group is None else {"group": group}
    what = tube if group is None else f"group {group} of {tube}"
    with missing(f"there is no tube {tube}" if group is None else f"{what} has no job, and no pause"):
        pause_for(server.client(), tube, given, pause_s)
    out.record({"tube": tube, **given, "pause": pause_s}, done.format(what, pause_s))


# --- Move -------------------------------------------------------------------------------------------------------------


@verb("move")
@click.argument("source", type=TUBE, metavar="FROM")
@click.argument("target", type=TUBE, metavar="TO")
@choice_options
@GROUP
@REASON
@click.option("--ready", is_flag=True, help="Make them ready, also those that are delayed or buried.")
@click.option("--to-url", type=URL, help="The server of TO, if it is another.")
def move(
    server: Server,
    out: Output,
    *,
    source: str,
    target: str,
    states: tuple[str, ...],
    count: int | None,
    group: str,
    reason: str,
    ready: bool,
    to_url: str | None,
) -> ExitCode:
    """Move the jobs of the tube FROM into the tube TO.

    A job keeps its body, priority, time to run, the rest of its delay, and its state. Jobs that a worker has reserved
    stay in FROM.

    A server that knows move-jobs moves ready and delayed jobs, and with --ready the buried ones, as they are: they keep
    their ids, and each is in one of the tubes whatever breaks. All others are put into TO, with new ids, and deleted
    from FROM once the server has confirmed the put. So NO JOB IS LOST, whatever breaks, but if this command is
    interrupted, UP TO 256 JOBS MAY BE IN BOTH TUBES. Run it again to move the rest. If it is interrupted before the
    copy of a buried job is buried, the copy is ready after a minute.

    Only the jobs that are there at the start are moved, because FROM and TO may feed each other.

    A worker sees a job only in one of the tubes, unless somebody kicks a delayed or buried one at that moment.

    --group and --reason move jobs as they are, on one server: they go with neither --ready nor --to-url.

    Options with (*) need a server that knows them.
    """
    if (group or reason) and (ready or to_url):
        name = "--group" if group else "--reason"
        raise click.UsageError(f"{name} moves jobs as they are: it goes with neither --ready nor --to-url")
    client = server.client()
    putting = client if to_url is None else server.client(url=to_url)
    if source == target and (to_url is None or is_same(client, putting)):
        raise click.UsageError("FROM and TO are the same tube of the same server")
    there = enter(client, source, states or RESTING)
    progress = Progress("moved {}", "call it again to move the rest", "up to {} may be in both tubes")
    if group or reason:
        wanted = Filter(tuple(there), count, reason=reason, group=group)
        one_by_one(client, progress, "move", {"to": target}, tube=source, wanted=wanted)
    else:
        move_all(client, putting, progress, source, target, there=there, count=count, ready=ready)
    report_reserved(client, source)
    moved = progress.done
    out.record({"from": source, "to": target, "moved": moved}, f"{jobs_text(moved)} moved from {source} to {target}")
    return ExitCode.OK


def move_all(
    client: Client[bytes],
    putting: Client[bytes],
    progress: Progress,
    source: str,
    target: str,
    *,
    there: Mapping[str, int],
    count: int | None,
    ready: bool,
) -> None:
    """Move so many jobs of each state, `count` in all. Raises Failure: not all could be moved."""
    whole = moved_whole(client.features(), ready=ready) if putting is client else ()
    twice = 0
    with progress.shown("Moving", at_most(there, count)):
        for state, number in there.items():
            left = min(number, sys.maxsize if count is None else count - progress.done)
            if state in whole:
                left = in_pieces(client, progress, source, state, to=target, count=left)
                if left and run(client, count_of(source, [state])):
                    raise Failure(f"the server moves no more {state} jobs into {target}; {progress.sentence()}")
                continue
            for batch in walk(client, of_state(source, state, left)):
                progress.pending = len(batch)
                results = run(putting, put_copies(target, batch, ready=ready))
                raise_lost(results)
                copied = [each for each, result in zip(batch, results, strict=True) if result.error is None]
                twice += run(client, batches.delete(copied))
                progress.add(len(copied))
                if failure := next((each.error for each in results if each.error is not None), None):
                    raise Failure(f"{explained(putting, failure)}; {progress.sentence()}", exit_code_of(failure))
    if twice:
        note(f"in both tubes, because a worker of {source} reserved them: {jobs_text(twice)}")


def moved_whole(features: frozenset[str], *, ready: bool) -> tuple[str, ...]:
    """Return the states whose jobs a server can move so that they are in the state that they shall have."""
    if not features.issuperset(("move-jobs", "move-jobs.to")):
        return ()
    return ("ready", "buried") if ready else ("ready", "delayed")


def in_pieces(client: Client[bytes], progress: Progress, tube: str, state: str, *, to: str | None, count: int) -> int:
    """Have the server move jobs, up to `count`, some at a time; return how many are left when it moves no more."""
    while count and (done := client.move_jobs(tube, state, to, min(count, PIECE))):
        progress.add(done)
        count -= done
    return count


def at_most(there: Mapping[str, int], count: int | None) -> int:
    return min(sum(there.values()), count or sys.maxsize)


def is_same(one: Client[bytes], other: Client[bytes]) -> bool:
    """Return whether two clients talk to the same server, by whatever address: each server has an id of its own."""
    id = one.stats().get("id")
    return id is not None and id == other.stats().get("id")


def one_by_one(
    client: Client[bytes],
    progress: Progress,
    do: str,
    given: Mapping[str, Any],
    *,
    tube: str,
    wanted: Filter,
) -> None:
    """Do an operation to jobs of a tube, as many as are wanted of all states. Raises Failure: one was refused."""
    act = OPERATIONS[do].act
    assert act is not None, "it is about jobs"
    with reporting(progress.sentence):
        for state in wanted.states:
            most = None if wanted.limit is None else wanted.limit - progress.done
            for page in walk(client, jobs_of(tube, replace(wanted, states=(state,), limit=most))):
                outcomes = run(client, act(given, page))
                progress.add(sum(each.is_done for each in outcomes))
                refused = next((each for each in outcomes if not each.is_done and each.state is None), None)
                if refused is not None:
                    raise Failure(f"{why(refused, do)}; {progress.sentence()}", exit_code_of(refused.error))


# --- Redrive ----------------------------------------------------------------------------------------------------------


@verb("redrive")
@click.argument("tube", type=TUBE)
@choice_options
@REASON
def redrive(
    server: Server, out: Output, *, tube: str, states: tuple[str, ...], count: int | None, reason: str
) -> ExitCode:
    """Move the dead jobs of TUBE back to the tubes in which they died.

    TUBE is where a rule sends the dead, or where they are buried. They keep their ids, become ready, and have all their
    attempts again; jobs of TUBE that have not died stay. The server must know move-jobs.
    """
    client = server.client()
    run(client, need("move-jobs"))
    with missing(f"there is no tube {tube}"):
        there = {state: run(client, count_of(tube, [state])) for state in states or RESTING}
    if reason:
        progress = Progress("moved {}", "call it again to move the rest")
        wanted = Filter(tuple(there), count, reason=reason, is_dead=True)
        one_by_one(client, progress, "redrive", {}, tube=tube, wanted=wanted)
    else:
        progress = Progress(f"{{}} of {tube} moved back", "call it again to move the rest")
        redrive_all(client, progress, tube, there, count)
    out.record({"from": tube, "moved": progress.done}, f"{jobs_text(progress.done)} of {tube} moved back")
    return ExitCode.OK


def redrive_all(
    client: Client[bytes], progress: Progress, tube: str, there: Mapping[str, int], count: int | None
) -> None:
    """Have the server move dead jobs back, so many of each state, `count` in all. Raises Failure: it moves no more."""
    with progress.shown("Moving", at_most(there, count)):
        for state, number in there.items():
            left = min(number, sys.maxsize if count is None else count - progress.done)
            left = in_pieces(client, progress, tube, state, to=None, count=left)
            if left and (stays := first_dead(client, tube, state)):
                if not (done := client.redrive(tube, state, left)):  # else it has died since
                    back = f"the server moves no more {state} jobs back into {stays.origin or tube}"
                    raise Failure(f"{back}; {progress.sentence()}")
                progress.add(done)


def first_dead(client: Client[bytes], tube: str, state: str) -> JobInfo | None:
    """Return the dead job with the smallest id, at which a server stops if it can't be moved."""
    found = walk(client, jobs_of(tube, Filter((state,), 1, is_dead=True)))
    return next((job for page in found for job in page), None)


# --- Clear ------------------------------------------------------------------------------------------------------------


@verb("clear")
@click.argument("tube", type=TUBE)
@choice_options
@GROUP
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def clear(
    server: Server, out: Output, *, tube: str, states: tuple[str, ...], count: int | None, group: str, yes: bool
) -> ExitCode:
    """Delete the ready, delayed and buried jobs of TUBE that are there now.

    Jobs that a worker has reserved stay, and so do those that are put while this runs. To keep a copy, use export
    --remove.

    It is one command to a server that knows clear-tube. To another, and with --count, jobs are deleted by their ids,
    the ready ones after they are reserved, so that no worker has them as well. --group does not go with --count.

    Options with (*) need a server that knows them.
    """
    if group and count is not None:
        raise click.UsageError("--group clears all that there is: it does not go with --count")
    client = server.client()
    there = enter(client, tube, states or RESTING)
    if group:
        run(client, need("clear-tube.group"))
        found = client.stats_groups(tube, group)
        there = {state: sum(getattr(each, state) for each in found) for state in there}
    if not yes:
        confirm_deletion(server, tube, there)
    progress = Progress(f"{{}} of {tube} deleted", "call it again to delete the rest", "of {} more it is not known")
    with progress.shown("Deleting", at_most(there, count)):
        if count is None and "clear-tube" in client.features():
            progress.pending = sum(there.values())
            progress.add(client.clear_tube(tube, *there, group=group or None))
        else:
            for batch in walk(client, batches.batches(tube, there, count)):
                progress.pending = len(batch)
                progress.add(len(batch) - run(client, batches.delete(batch)))
    report_reserved(client, tube)
    out.record({"tube": tube, "deleted": progress.done}, f"{jobs_text(progress.done)} of {tube} deleted")
    return ExitCode.OK


def confirm_deletion(server: Server, tube: str, there: Mapping[str, int]) -> None:
    """Ask whether to delete so many jobs of each state. Raise Failure for no, UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes")
    what = ", ".join(f"{number} {state}" for state, number in there.items())
    if not click.confirm(f"Delete jobs of {tube} at {server.address} ({what})?", err=True):
        raise Failure("nothing was deleted")
