"""``beanpole clear``: delete all jobs of a tube that nobody holds."""

import click

from beanpole.cli.common import TUBE, Output, Server, confirm_deletion, jobs_text, verb
from beanpole.cli.scan import count_of
from beanpole.client.extensions import RESTING
from beanpole.errors import ExitCode


@verb("clear")
@click.argument("tube", type=TUBE)
@click.option("--state", "states", type=click.Choice(RESTING), multiple=True, help="Only these; may be repeated.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def clear(server: Server, out: Output, *, tube: str, states: tuple[str, ...], yes: bool) -> ExitCode:
    """Delete the ready, delayed and buried jobs of TUBE that are there now.

    It is one command to a server that knows clear-tube; another is asked for the next job of each state, again and
    again. Jobs that a worker has reserved stay, and so do those that are put while this runs: drain deletes them, too.
    """
    client = server.client()
    there = {state: count_of(client, tube, [state]) for state in states or RESTING}
    if not yes:
        confirm_deletion(server, tube, there)
    cleared = client.clear_tube(tube, *states)
    out.record({"tube": tube, "cleared": cleared}, f"{jobs_text(cleared)} of {tube} deleted")
    return ExitCode.OK
