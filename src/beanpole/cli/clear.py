"""``beanpole clear``: delete the jobs of a tube that nobody holds."""

import sys
from collections.abc import Iterator, Mapping

import click

from beanpole.cli.batches import STATES, batches, delete, enter, report_reserved
from beanpole.cli.common import TUBE, Output, Server, confirm_deletion, jobs_text, progress, verb
from beanpole.cli.errors import reporting
from beanpole.cli.move import choice_options
from beanpole.client import Client
from beanpole.errors import ExitCode


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
    there = enter(client, tube, states or STATES)
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
    for batch in batches(client, tube, there, count):
        yield len(batch), 0
        yield 0, len(batch) - delete(client, batch)
