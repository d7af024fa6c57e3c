"""``beanpole move``: the jobs of a tube into another."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from beanpole.cli.batches import STATES, Copy, Taken, delete, enter, of_state, put_copies, report_reserved
from beanpole.cli.common import COUNT, TUBE, URL, Output, Server, jobs_text, progress, verb
from beanpole.cli.errors import Failure, exit_code_of, explained, note, reporting
from beanpole.cli.scan import count_of
from beanpole.client import Client
from beanpole.errors import BeanpoleError, ExitCode

PIECE = 10_000
"""Jobs that a server moves in one command: what is done is done, and progress is seen."""


def choice_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose among the jobs of a tube."""
    states = click.option(
        "--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated."
    )
    count = click.option("--count", type=COUNT, help="The most jobs.  [default: all]")
    return states(count(function))


@verb("move")
@click.argument("source", type=TUBE, metavar="FROM")
@click.argument("target", type=TUBE, metavar="TO")
@choice_options
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
    """
    client = server.client()
    putting = client if to_url is None else server.client(url=to_url)
    if source == target and (to_url is None or is_same(client, putting)):
        raise click.UsageError("FROM and TO are the same tube of the same server")
    there = enter(client, source, states or STATES)
    whole = () if putting is not client else moved_whole(client.features(), ready=ready)
    moved = twice = pending = 0

    def story() -> str:
        more = f"; up to {jobs_text(pending)} may be in both tubes" if pending else ""
        return f"moved {jobs_text(moved)}{more}; call it again to move the rest"

    with reporting(story), progress("Moving", min(sum(there.values()), count or sys.maxsize)) as advance:
        for state, number in there.items():
            left = min(number, sys.maxsize if count is None else count - moved)
            if state in whole:
                for done in in_pieces(client, source, state, target, left):
                    moved += done
                    left -= done
                    advance(done)
                if left and count_of(client, source, [state]):
                    raise Failure(f"the server moves no more {state} jobs into {target}; {story()}")
                continue
            for batch in of_state(client, source, state, left):
                pending = len(batch)
                copied, failure = move_batch(putting, target, batch, ready=ready)
                twice += delete(client, copied)
                moved += len(copied)
                pending = 0
                advance(len(copied))
                if failure is not None:
                    raise Failure(f"{explained(putting, failure)}; {story()}", exit_code_of(failure))
    if twice:
        note(f"in both tubes, because a worker of {source} reserved them: {jobs_text(twice)}")
    report_reserved(client, source)
    out.record({"from": source, "to": target, "moved": moved}, f"{jobs_text(moved)} moved from {source} to {target}")
    return ExitCode.OK


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


def move_batch(
    client: Client[bytes], tube: str, batch: list[Taken], *, ready: bool
) -> tuple[list[Taken], BeanpoleError | None]:
    """Put the jobs of a batch; return those that are put and may be deleted, and the first error."""
    copies = [
        Copy(
            each.body,
            each.stats.pri,
            each.stats.ttr,
            delay_s=0 if ready else each.delay_s,
            buried=each.state == "buried" and not ready,
        )
        for each in batch
    ]
    results = put_copies(client, tube, copies)
    done = [each for each, result in zip(batch, results, strict=True) if result.error is None]
    return done, next((result.error for result in results if result.error is not None), None)
