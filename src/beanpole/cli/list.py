"""``beanpole list``: the jobs of a tube, page by page."""

from collections.abc import Iterable, Iterator
from itertools import islice

import click

from beanpole.cli.change import need
from beanpole.cli.common import COUNT, ID, TUBE, Output, Server, body_fields, verb
from beanpole.cli.deaths import PIECE, reasons_of
from beanpole.cli.jobs import preview
from beanpole.cli.scan import STATES, count_of
from beanpole.client import Client, JobInfo
from beanpole.errors import ExitCode
from beanpole.protocol.limits import FRAMES_MAX

COLUMNS = ("id", "state", "pri", "age", "delay", "ttr", "reserves", "key")
DEAD_COLUMNS = ("id", "state", "pri", "death", "failed")
BODY_SHOWN = 240
"""Bytes of a body from which a table shows the beginning."""

BODY_BYTES = 65_536
"""Bytes of a body with --json."""


IN_ORDER = tuple(each for each in STATES if each != "reserved")


@verb("list")
@click.argument("tube", type=TUBE)
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated.")
@click.option("--limit", type=COUNT, help="The most jobs of each state.  [default: all]")
@click.option("--after", type=ID, help="Only jobs behind this id.")
@click.option("--next", "in_order", is_flag=True, help="In the order in which workers get them, up to 1 000 jobs. (*)")
@click.option("--dead", is_flag=True, help="Only jobs that have died: when, where, and of what. (*)")
@click.option(
    "--text", default="", help="Only jobs with this text in their key, or the first 64 KiB of their body. (*)"
)
@click.option("--bodies", is_flag=True, help="Show how bodies begin; with --json, up to 64 KiB of each. (*)")
def list(  # noqa: A001 - the word for it
    server: Server,
    out: Output,
    *,
    tube: str,
    states: tuple[str, ...],
    limit: int | None,
    after: int | None,
    in_order: bool,
    dead: bool,
    text: str,
    bodies: bool,
) -> ExitCode:
    """List the jobs of TUBE by their ids, state by state.

    A server that knows list-jobs gives them page by page: each job that is there throughout is shown once. Another is
    asked for id after id, which takes long where ids are large; jobs says where to look. Options with (*) need a server
    that knows them.
    """
    client = server.client()
    count_of(client, tube, states or STATES)  # says whether there is such a tube
    size = BODY_BYTES if text or (bodies and out.as_json) else BODY_SHOWN if bodies else None
    if in_order and "reserved" in states:
        raise click.UsageError("--next is about jobs that workers get; those that are reserved have no order")
    if dead:
        need(client.features(), "list-jobs")
        need(client.features(), "explain")
    found = (
        job
        for state in states or (IN_ORDER if in_order else STATES)
        for job in pages(
            client, tube, state, limit, dead=dead, text=text, after=after or 0, in_order=in_order, bodies=size
        )
    )
    if dead:
        show_dead(client, out, found, bodies=bodies)
    elif out.as_json:
        for job in found:
            out.record(record_of(job, bodies=bodies), "")
    else:
        rows = (row_of(job, bodies=bodies) for job in found)
        out.table([*COLUMNS, "body"] if bodies else COLUMNS, rows)
    return ExitCode.OK


def show_dead(client: Client[bytes], out: Output, jobs: Iterable[JobInfo], *, bodies: bool) -> None:
    """Write what is known of jobs that have died: the server explains each."""

    def rows() -> Iterator[dict[str, object]]:
        left = iter(jobs)
        while piece := {job.id: job for job in islice(left, PIECE)}:
            for id, said in reasons_of(client, [*piece]).items():  # but for jobs that are gone
                shown = record_of(piece[id], bodies=bodies) if out.as_json else row_of(piece[id], bodies=bodies)
                yield shown | {"death": said.get("died", ""), "failed": said.get("failed", "")}

    out.table([*DEAD_COLUMNS, "body"] if bodies else DEAD_COLUMNS, rows())


def pages(
    client: Client[bytes],
    tube: str,
    state: str,
    limit: int | None,
    *,
    dead: bool,
    after: int,
    in_order: bool,
    bodies: int | None,
    text: str = "",
) -> Iterator[JobInfo]:
    """Return the jobs in a state, or only those that have died or have a text, a page at a time."""
    is_whole = not dead and not text
    left = limit
    at: int | None = after
    while at is not None and left != 0:
        most = min(left, FRAMES_MAX) if is_whole and left is not None else FRAMES_MAX
        order = "next" if in_order else None
        page = client.list_jobs(tube, state, most, after=at, bodies=bodies, order=order)  # type: ignore[arg-type]
        found = page.jobs if is_whole else [job for job in page.jobs if fits(job, text, dead=dead)][:left]
        yield from found
        left = None if left is None else left - len(found)
        at = None if in_order else page.next


def fits(job: JobInfo, text: str, *, dead: bool) -> bool:
    """Whether a job has died, where that is wanted, and has a text in its key or body."""
    has_text = text in (job.key or "") or text.encode("utf-8", "surrogateescape") in job.body
    return has_text and (job.died is not None or not dead)


def row_of(job: JobInfo, *, bodies: bool) -> dict[str, object]:
    """Return the row of a job in a table."""
    return job.as_dict() | {"key": job.key or "", "body": preview(job.body[:BODY_SHOWN]) if bodies else ""}


def record_of(job: JobInfo, *, bodies: bool) -> dict[str, object]:
    """Return what is known of a job, with its body if that was asked for."""
    known = {name: value for name, value in job.as_dict().items() if value is not None and name != "body"}
    return known | (body_fields(job.body) if bodies else {})
