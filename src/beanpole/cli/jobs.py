"""``beanpole jobs``: the jobs of a tube."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from beanpole.cli import limits
from beanpole.cli.common import COUNT, ID, TUBE, Output, Server, body_fields, cell, jobs_text, progress, verb
from beanpole.cli.deaths import first_line, reasons_of
from beanpole.cli.errors import note
from beanpole.cli.inspect import typed
from beanpole.cli.scan import STATES, Found, count_of, find
from beanpole.client import Client, StatsJob
from beanpole.client.errors import NotFoundError
from beanpole.errors import ExitCode

COLUMNS = ("id", "state", "pri", "age", "left", "ttr", "reserves", "timeouts", "why")
BODY_SHOWN = 60
"""Characters of a body that stand in a table."""


def scan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a verb that looks for jobs by their ids."""
    options = (
        click.option("--from", "first", type=ID, help="The first id to look at."),
        click.option("--to", "last", type=ID, help="The last id to look at."),
        click.option(
            "--scan",
            "id_count_max",
            type=COUNT,
            default=limits.SCAN_IDS_DEFAULT,
            show_default=True,
            help="The most ids to look at.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def look_for(client: Client[bytes], tube: str, states: tuple[str, ...], **options: Any) -> Found:
    """Look for jobs, with a progress bar, and say it if some were not found."""
    if options["first"] is not None and options["last"] is not None and options["first"] > options["last"]:
        raise click.UsageError("--from is after --to")
    with progress("Looking for jobs", count_of(client, tube, states)) as advance:
        found = find(client, tube, states, advance=advance, **options)
    if found.left_count:
        note(
            f"{jobs_text(found.left_count)} of {tube} not found among {found.id_count} ids;"
            " --from, --to and --scan say which ids to look at"
        )
    return found


@verb("jobs")
@click.argument("tube", type=TUBE)
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated.")
@click.option("--bodies", is_flag=True, help="Show how bodies begin; with --json, all of them.")
@scan_options
def jobs(
    server: Server, out: Output, *, tube: str, states: tuple[str, ...], bodies: bool, **scan: int | None
) -> ExitCode:
    """List the jobs of TUBE.

    The protocol has no command for that. So ids are asked for, one after the other, around those of the next ready,
    delayed and buried job and the newest one, until as many jobs are found as the tube has. That takes a few seconds
    for a million ids, and the server as many lookups. --from and --to look at certain ids instead.

    left is how many seconds are left of a delay or a time to run, why is what the worker said that failed last, if the
    server knows it; --json has more. Exit code 1: not all jobs were found.
    """
    client = server.client()
    found = look_for(client, tube, states or STATES, **scan)
    shown = bodies_of(client, found.jobs) if bodies else {}
    said = reasons_of(client, [job.id for job in found.jobs if job.reserves or job.state == "buried"])
    if out.as_json:
        for job in found.jobs:
            out.record(typed(job) | said.get(job.id, {}) | (body_fields(shown[job.id]) if job.id in shown else {}), "")
    else:
        rows = [row_of(job, said.get(job.id, {})) | {"body": preview(shown.get(job.id, b""))} for job in found.jobs]
        out.table([*COLUMNS, "body"] if bodies else COLUMNS, rows)
    return ExitCode.FAILED if found.left_count else ExitCode.OK


def row_of(job: StatsJob, said: Mapping[str, str]) -> dict[str, object]:
    """Return the columns of a job."""
    known = {"left": job.time_left, "why": shortened(first_line(said))}
    return known | {name: getattr(job, name) for name in COLUMNS if name not in known}


def bodies_of(client: Client[bytes], jobs: list[StatsJob]) -> dict[int, bytes]:
    """Return the bodies of jobs by id; those that are gone are left out."""
    with client.pipeline(raise_errors=False) as pipeline:
        peeks = [pipeline.peek(job.id) for job in jobs]
    found = [peek.result() for peek in peeks if not isinstance(peek.error, NotFoundError)]
    return {job.id: job.body for job in found}


def preview(body: bytes) -> str:
    """Return how a body begins, on one line."""
    return shortened(cell(body[: BODY_SHOWN * 4].decode(errors="replace")))


def shortened(text: str) -> str:
    """Return a text as long as a table shows it."""
    return text if len(text) <= BODY_SHOWN else text[: BODY_SHOWN - 1] + "…"
