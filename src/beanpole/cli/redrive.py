"""``beanpole redrive``: dead jobs go back to where they died."""

import sys

import click

from beanpole.cli.batches import STATES
from beanpole.cli.common import TUBE, Output, Server, jobs_text, progress, verb
from beanpole.cli.errors import Failure, reporting
from beanpole.cli.list import pages
from beanpole.cli.move import choice_options, in_pieces
from beanpole.cli.scan import count_of
from beanpole.client import Client, JobInfo
from beanpole.client.errors import UnsupportedError
from beanpole.errors import ExitCode


@verb("redrive")
@click.argument("tube", type=TUBE)
@choice_options
def redrive(server: Server, out: Output, *, tube: str, states: tuple[str, ...], count: int | None) -> ExitCode:
    """Move the dead jobs of TUBE back to the tubes in which they died.

    TUBE is where a rule sends the dead, or where they are buried. They keep their ids, become ready, and have all their
    attempts again; jobs of TUBE that have not died stay. The server must know move-jobs.
    """
    client = server.client()
    if "move-jobs" not in client.features():
        raise UnsupportedError("move-jobs")
    there = {state: count_of(client, tube, [state]) for state in states or STATES}
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
    out.record({"from": tube, "moved": moved}, f"{jobs_text(moved)} of {tube} moved back")
    return ExitCode.OK


def first_dead(client: Client[bytes], tube: str, state: str) -> JobInfo | None:
    """Return the dead job with the smallest id, at which a server stops if it can't be moved."""
    return next(pages(client, tube, state, 1, dead=True, after=0, in_order=False, bodies=None), None)
