"""``beanpole move|redrive|clear``: what is done to the jobs of a tube."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from beanpole.cli.common import TUBE, URL, Output, Server, confirm_deletion, jobs_text, progress, verb
from beanpole.cli.errors import Failure, exit_code_of, explained, missing, note, reporting
from beanpole.cli.job_verbs import why
from beanpole.cli.options import REASON, choice_options
from beanpole.client import Client, JobInfo
from beanpole.client.extensions import RESTING
from beanpole.errors import BeanpoleError, ExitCode
from beanpole.operations import batches
from beanpole.operations.batches import Copy, Taken, of_state, put_copies, raise_lost
from beanpole.operations.listing import Filter, count_of, jobs_of, need
from beanpole.operations.plan import run, walk
from beanpole.operations.table import OPERATIONS

PIECE = 10_000
"""Jobs that a server moves in one command: what is done is done, and progress is seen."""


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


# --- Move -------------------------------------------------------------------------------------------------------------


@verb("move")
@click.argument("source", type=TUBE, metavar="FROM")
@click.argument("target", type=TUBE, metavar="TO")
@choice_options
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

    --reason moves jobs as they are, on one server: it goes with neither --ready nor --to-url.
    """
    if reason and (ready or to_url):
        raise click.UsageError("--reason moves jobs as they are: it goes with neither --ready nor --to-url")
    client = server.client()
    putting = client if to_url is None else server.client(url=to_url)
    if source == target and (to_url is None or is_same(client, putting)):
        raise click.UsageError("FROM and TO are the same tube of the same server")
    there = enter(client, source, states or RESTING)
    if reason:
        moved = one_by_one(client, "move", {"to": target}, tube=source, there=there, count=count, reason=reason)
    else:
        moved = Mover(client, putting, source, target, ready=ready).move(there, count)
    report_reserved(client, source)
    out.record({"from": source, "to": target, "moved": moved}, f"{jobs_text(moved)} moved from {source} to {target}")
    return ExitCode.OK


class Mover:
    """Moves jobs from tube to tube, and knows how far it came."""

    def __init__(self, client: Client[bytes], putting: Client[bytes], source: str, target: str, *, ready: bool) -> None:
        self._client = client
        self._putting = putting
        self._source = source
        self._target = target
        self._ready = ready
        self._moved = self._pending = 0

    def move(self, there: Mapping[str, int], count: int | None) -> int:
        """Move so many jobs of each state, `count` in all; return how many were moved."""
        whole = moved_whole(self._client.features(), ready=self._ready) if self._putting is self._client else ()
        twice = 0
        total = min(sum(there.values()), count or sys.maxsize)
        with reporting(self._story), progress("Moving", total) as advance:
            for state, number in there.items():
                left = min(number, sys.maxsize if count is None else count - self._moved)
                if state in whole:
                    for done in in_pieces(self._client, self._source, state, self._target, left):
                        self._moved += done
                        left -= done
                        advance(done)
                    if left and run(self._client, count_of(self._source, [state])):
                        raise Failure(f"the server moves no more {state} jobs into {self._target}; {self._story()}")
                    continue
                for batch in walk(self._client, of_state(self._source, state, left)):
                    self._pending = len(batch)
                    copied, failure = self._copied(batch)
                    twice += run(self._client, batches.delete(copied))
                    self._moved += len(copied)
                    self._pending = 0
                    advance(len(copied))
                    if failure is not None:
                        said = explained(self._putting, failure)
                        raise Failure(f"{said}; {self._story()}", exit_code_of(failure))
        if twice:
            note(f"in both tubes, because a worker of {self._source} reserved them: {jobs_text(twice)}")
        return self._moved

    def _copied(self, batch: list[Taken]) -> tuple[list[Taken], BeanpoleError | None]:
        """Put the jobs of a batch; return those that are put and may be deleted, and the first error."""
        copies = [Copy.of(each, ready=self._ready) for each in batch]
        results = run(self._putting, put_copies(self._target, copies))
        raise_lost(results)
        done = [each for each, result in zip(batch, results, strict=True) if result.error is None]
        return done, next((result.error for result in results if result.error is not None), None)

    def _story(self) -> str:
        more = f"; up to {jobs_text(self._pending)} may be in both tubes" if self._pending else ""
        return f"moved {jobs_text(self._moved)}{more}; call it again to move the rest"


def moved_whole(features: frozenset[str], *, ready: bool) -> tuple[str, ...]:
    """Return the states whose jobs a server can move so that they are in the state that they shall have."""
    if not features.issuperset(("move-jobs", "move-jobs.to")):
        return ()
    return ("ready", "buried") if ready else ("ready", "delayed")


def in_pieces(client: Client[bytes], tube: str, state: str, to: str | None, count: int) -> Iterator[int]:
    """Have the server move jobs, up to `count`, some at a time; return how many each time, until it moves no more."""
    while count and (done := client.move_jobs(tube, state, to, min(count, PIECE))):
        yield done
        count -= done


def is_same(one: Client[bytes], other: Client[bytes]) -> bool:
    """Return whether two clients talk to the same server, by whatever address: each server has an id of its own."""
    id = one.stats().get("id")
    return id is not None and id == other.stats().get("id")


def one_by_one(
    client: Client[bytes],
    do: str,
    given: Mapping[str, Any],
    *,
    tube: str,
    there: Mapping[str, int],
    count: int | None,
    reason: str,
) -> int:
    """Do an operation to the jobs of a tube whose reason has a text; return to how many.

    Raises Failure: the server has refused one.
    """
    act, done = OPERATIONS[do].act, 0
    assert act is not None, "it is about jobs"

    def story() -> str:
        return f"moved {jobs_text(done)}; call it again to move the rest"

    with reporting(story):
        for state in there:
            wanted = Filter((state,), None if count is None else count - done, reason=reason, is_dead=do == "redrive")
            for page in walk(client, jobs_of(tube, wanted)):
                outcomes = run(client, act(given, page.jobs))
                done += sum(each.is_done for each in outcomes)
                refused = next((each for each in outcomes if not each.is_done and each.state is None), None)
                if refused is not None:
                    code = exit_code_of(refused.error) if refused.error else ExitCode.FAILED
                    raise Failure(f"{why(refused, do)}; {story()}", code)
    return done


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
        moved = one_by_one(client, "redrive", {}, tube=tube, there=there, count=count, reason=reason)
    else:
        moved = redrive_all(client, tube, there, count)
    out.record({"from": tube, "moved": moved}, f"{jobs_text(moved)} of {tube} moved back")
    return ExitCode.OK


def redrive_all(client: Client[bytes], tube: str, there: Mapping[str, int], count: int | None) -> int:
    """Have the server move dead jobs back, so many of each state, `count` in all; return how many were moved."""
    moved = 0

    def story() -> str:
        return f"{jobs_text(moved)} of {tube} moved back; call it again to move the rest"

    with reporting(story), progress("Moving", min(sum(there.values()), count or sys.maxsize)) as advance:
        for state, number in there.items():
            left = min(number, sys.maxsize if count is None else count - moved)
            for done in in_pieces(client, tube, state, None, left):
                moved += done
                left -= done
                advance(done)
            if left and (stays := first_dead(client, tube, state)):
                if not (done := client.redrive(tube, state, left)):  # else it has died since
                    raise Failure(f"the server moves no more {state} jobs back into {stays.origin or tube}; {story()}")
                moved += done
    return moved


def first_dead(client: Client[bytes], tube: str, state: str) -> JobInfo | None:
    """Return the dead job with the smallest id, at which a server stops if it can't be moved."""
    found = walk(client, jobs_of(tube, Filter((state,), 1, is_dead=True)))
    return next((job for page in found for job in page.jobs), None)


# --- Clear ------------------------------------------------------------------------------------------------------------


@verb("clear")
@click.argument("tube", type=TUBE)
@choice_options
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def clear(server: Server, out: Output, *, tube: str, states: tuple[str, ...], count: int | None, yes: bool) -> ExitCode:
    """Delete the ready, delayed and buried jobs of TUBE that are there now.

    Jobs that a worker has reserved stay, and so do those that are put while this runs. To keep a copy, use export
    --remove.

    It is one command to a server that knows clear-tube. To another, and with --count, jobs are deleted by their ids,
    the ready ones after they are reserved, so that no worker has them as well.
    """
    client = server.client()
    there = enter(client, tube, states or RESTING)
    if not yes:
        confirm_deletion(server, tube, there)
    deleted = pending = 0

    def story() -> str:
        more = f"; of {jobs_text(pending)} more it is not known" if pending else ""
        return f"{jobs_text(deleted)} of {tube} deleted{more}; call it again to delete the rest"

    is_whole = count is None and "clear-tube" in client.features()
    steps = whole(client, tube, there) if is_whole else by_ids(client, tube, there, count)
    with reporting(story), progress("Deleting", min(sum(there.values()), count or sys.maxsize)) as advance:
        for pending, done in steps:  # noqa: B007 - the story reads it
            deleted += done
            advance(done)
    report_reserved(client, tube)
    out.record({"tube": tube, "deleted": deleted}, f"{jobs_text(deleted)} of {tube} deleted")
    return ExitCode.OK


def whole(client: Client[bytes], tube: str, there: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Have the server delete the jobs of some states; return as `by_ids` does."""
    yield sum(there.values()), 0
    yield 0, client.clear_tube(tube, *there)


def by_ids(client: Client[bytes], tube: str, there: Mapping[str, int], count: int | None) -> Iterator[tuple[int, int]]:
    """Delete as many jobs of each state as there are, `count` in all; return how many are about to go, or are gone."""
    for batch in walk(client, batches.batches(tube, there, count)):
        yield len(batch), 0
        yield 0, len(batch) - run(client, batches.delete(batch))
