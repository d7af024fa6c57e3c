"""``beanpole drain`` and ``beanpole move``: empty a tube."""

import sys
from collections.abc import Callable
from typing import Any

import click

from beanpole.cli.common import (
    COUNT,
    TUBE,
    URL,
    Failure,
    Output,
    Server,
    exit_code_of,
    jobs_text,
    note,
    progress,
    sentence_of,
    verb,
)
from beanpole.cli.copying import Copy, put_copies
from beanpole.cli.scan import count_of
from beanpole.cli.taking import STATES, Taken, batches, delete
from beanpole.client import Client
from beanpole.errors import BeanpoleError, ExitCode


def choice_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose among the jobs of a tube."""
    states = click.option(
        "--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated."
    )
    count = click.option("--count", type=COUNT, help="The most jobs.  [default: all]")
    return states(count(function))


@verb("drain")
@click.argument("tube", type=TUBE)
@choice_options
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def drain(server: Server, out: Output, *, tube: str, states: tuple[str, ...], count: int | None, yes: bool) -> ExitCode:
    """Delete the jobs of TUBE: ready, delayed and buried ones, also those that are put meanwhile.

    Jobs that a worker has reserved stay. To keep a copy, use export --remove.
    """
    client, states = server.client(tube), states or STATES
    there = {state: count_of(client, tube, [state]) for state in states}
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked: say --yes")
        what = ", ".join(f"{number} {state}" for state, number in there.items())
        click.confirm(f"Delete jobs of {tube} at {server.address} ({what})?", abort=True, err=True)
    deleted = 0
    with progress("Deleting", min(sum(there.values()), count or sys.maxsize)) as tell:
        for batch in batches(client, tube, states, count):
            deleted += len(batch) - delete(client, batch)
            tell(len(batch))
    out.record({"tube": tube, "deleted": deleted}, f"{jobs_text(deleted)} of {tube} deleted")
    return ExitCode.OK


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

    Body, priority, time to run, what is left of a delay, and being buried stay; the id is a new one. Jobs that a
    worker has reserved stay in FROM.

    A job is put into TO, and deleted from FROM when the server has answered that it is there. So NONE IS LOST,
    whatever breaks, but if this command is interrupted, UP TO 256 JOBS MAY BE IN BOTH TUBES. Call it again to move the
    rest. The copy of a buried job that was not buried in time is ready after a minute.

    A worker sees a job only in one of the tubes, unless somebody kicks a delayed or buried one at that moment.
    """
    if source == target and to_url is None:
        raise click.UsageError("FROM and TO are the same tube")
    client, states = server.client(source), states or STATES
    putting = client if to_url is None else server.client(url=to_url)
    total = sum(count_of(client, source, [state]) for state in states)
    moved = twice = 0
    with progress("Moving", min(total, count or sys.maxsize)) as tell:
        try:
            for batch in batches(client, source, states, count):
                done, failure = move_batch(putting, target, batch, ready=ready)
                moved += len(done)
                twice += delete(client, done)
                tell(len(done))
                if failure is not None:
                    raise failure
        except BeanpoleError as error:
            raise Failure(f"moved {jobs_text(moved)}, then: {sentence_of(error)}", exit_code_of(error)) from error
    if twice:
        note(f"in both tubes, as a worker of {source} took them meanwhile: {jobs_text(twice)}")
    out.record({"from": source, "to": target, "moved": moved}, f"{jobs_text(moved)} moved from {source} to {target}")
    return ExitCode.OK


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
