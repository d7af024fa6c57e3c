"""``beanpole tail``: jobs of a tube as they arrive. `beanpole.observe.tail` explains how that is possible."""

import asyncio
import secrets
from typing import TYPE_CHECKING

import click

from beanpole.cli.common import TUBE, Output, Server, body_fields, cell, verb
from beanpole.cli.errors import note, sentence_of
from beanpole.cli.inspect import async_client, interval
from beanpole.cli.quantities import Size
from beanpole.client.extensions import STATES
from beanpole.errors import ConnectionLostError
from beanpole.observe.units import plural

if TYPE_CHECKING:
    from beanpole.observe.tail import Seen


@verb("tail")
@click.argument("tube", type=TUBE)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only these; may be repeated.")
@click.option(
    "--body-bytes",
    type=Size(),
    default=200,
    show_default=True,
    help="Bytes of a body to show; --json shows all, unless this is given.",
)
@click.option("--count", "-n", type=click.IntRange(1), metavar="N", help="Exit after this many jobs.")
@interval(0.2, "How often to ask.")
def tail(
    server: Server,
    out: Output,
    *,
    tube: str,
    states: tuple[str, ...],
    body_bytes: int,
    count: int | None,
    interval_s: float,
) -> None:
    """Show the jobs of TUBE as they arrive, until Ctrl-C, without taking them from workers.

    Each job is shown once, in the state in which it was found: a worker may have it already. Jobs that were deleted
    before they could be inspected are missed; their number is reported on standard error.

    To learn the last id, one delayed job is put into a tube of its own and deleted at once.
    """
    source = click.get_current_context().get_parameter_source("body_bytes")
    if out.as_json and source is click.core.ParameterSource.DEFAULT:
        body_bytes = 2**63
    printer = Printer(out, states or STATES, body_bytes, count or 2**63)
    try:
        asyncio.run(follow(server, tube, printer, interval_s))
    except KeyboardInterrupt:
        pass  # this is how it is ended
    finally:
        if printer.missed:
            note(f"{plural(printer.missed, 'job')} came and went before they could be looked at")


class Printer:
    """Shows jobs, and counts them."""

    def __init__(self, out: Output, states: tuple[str, ...], body_bytes: int, left: int) -> None:
        self._out = out
        self._states = states
        self._body_bytes = body_bytes
        self.left = left
        """Jobs to be shown until the end."""
        self.missed = 0

    def show(self, seen: "list[Seen]") -> None:
        wanted = [each for each in seen if each.stats.state in self._states][: self.left]
        self.left -= len(wanted)
        for each in wanted:
            stats = each.stats
            cut = each.body[: self._body_bytes]
            record = {key: stats[key] for key in ("id", "tube", "state", "pri", "age", "delay", "ttr")}
            record |= {"body_size": len(each.body), **body_fields(cut)}
            text = f"{stats.id}  {stats.state}  pri {stats.pri}  ttr {stats.ttr}"
            text += f"  delay {stats.delay}" if stats.delay else ""
            text += f"  {cell(cut.decode(errors='backslashreplace'))}"
            text += f" ... ({plural(len(each.body), 'byte')})" if len(cut) < len(each.body) else ""
            self._out.record(record, text)
        if wanted:
            self._out.flush()


async def follow(server: Server, tube: str, printer: Printer, interval_s: float) -> None:
    """Polls until all wanted jobs are shown; waits for a server that went away."""
    from beanpole.observe.tail import Follower

    lost = False
    async with async_client(server, tube) as client:
        follower = Follower(client, tube, f"beanpole-tail-{secrets.token_hex(8)}")
        while printer.left:
            try:
                seen, missed = await follower.poll()
            except ConnectionLostError as error:
                if not lost:
                    note(f"{sentence_of(error)}; trying again")
                lost = True
            else:
                lost = False
                printer.missed += missed
                printer.show(seen)
            if printer.left:
                await asyncio.sleep(interval_s)
