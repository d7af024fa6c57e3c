"""``beanpole pause`` and ``beanpole resume``: hold a tube, and let it go again."""

import click

from beanpole.cli.common import TUBE, Output, Server, verb
from beanpole.cli.errors import missing
from beanpole.cli.quantities import SECONDS


@verb("pause")
@click.argument("tube", type=TUBE)
@click.option("--for", "pause_s", type=SECONDS, default=3600, show_default=True, help="How long.")
def pause(server: Server, out: Output, tube: str, pause_s: int) -> None:
    """Keep the jobs of TUBE from being reserved.

    Jobs can still be put, looked at, and reserved by their id. A new pause takes the place of an old one.
    """
    with missing(f"there is no tube {tube}"):
        server.client().pause_tube(tube, pause_s)
    out.record({"tube": tube, "pause": pause_s}, f"{tube} is paused for {pause_s} s")


@verb("resume")
@click.argument("tube", type=TUBE)
def resume(server: Server, out: Output, tube: str) -> None:
    """End the pause of TUBE. It is no error if there is none."""
    with missing(f"there is no tube {tube}"):
        server.client().pause_tube(tube, 0)
    out.record({"tube": tube, "pause": 0}, f"{tube} resumed")
