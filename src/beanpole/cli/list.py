"""``beanpole list``: the jobs of a tube."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice
from typing import Any

import click

from beanpole.cli.common import COUNT, ID, TUBE, Output, Server, body_fields, cell, first_line, jobs_text, verb
from beanpole.cli.errors import Failure, missing, note
from beanpole.cli.options import GROUP, REASON, scan_options
from beanpole.client import Client, JobInfo
from beanpole.client.explanation import death
from beanpole.client.extensions import ID_MAX, STATES
from beanpole.errors import ExitCode
from beanpole.operations.listing import Filter, Missed, count_of, jobs_of
from beanpole.operations.plan import run, walk
from beanpole.protocol.limits import FRAMES_MAX

COLUMNS = ("id", "state", "pri", "age", "left", "ttr", "reserves", "timeouts", "key", "why")
DEAD_COLUMNS = ("id", "state", "pri", "death", "failed")
BODY_SHOWN = 60  # characters of a body in a table
BODY_BYTES = 65_536  # of a body with --json
IN_ORDER = tuple(each for each in STATES if each != "reserved")


def place_of(wanted: Filter, first: int | None, last: int | None, id_count_max: int) -> Filter:
    if first is not None and last is not None and first > last:
        raise click.UsageError("--from is after --to")
    return replace(wanted, after=max(wanted.after, (first or 1) - 1), last=last or ID_MAX, scan_ids=id_count_max)


def listed(client: Client[bytes], tube: str, wanted: Filter, **more: Any) -> Iterator[Sequence[JobInfo]]:
    """Return the jobs of a tube, some at a time; say it if some were not found.

    Raises Failure: there is no such tube, or, behind the last of them, some were not found.
    """
    with missing(f"there is no tube {tube}"):
        run(client, count_of(tube, wanted.states))
    missed: Missed = yield from walk(client, jobs_of(tube, wanted, **more))
    if missed.count:
        where = "; --from, --to and --scan say which ids to look at"
        raise Failure(f"{jobs_text(missed.count)} of {tube} not found among {missed.ids} ids{where}")


@verb("list")
@click.argument("tube", type=TUBE)
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only these; may be repeated.")
@click.option("--limit", type=COUNT, help="The most jobs of each state.  [default: all]")
@click.option("--after", type=ID, help="Only jobs behind this id.")
@click.option("--next", "in_order", is_flag=True, help="In the order in which workers get them, up to 1 000 jobs. (*)")
@click.option("--dead", is_flag=True, help="Only jobs that have died: when, where, and of what. (*)")
@click.option("--text", default="", help="Only jobs with this text in their key, or the first 64 KiB of their body.")
@GROUP
@REASON
@click.option("--bodies", is_flag=True, help="Show how bodies begin; with --json, up to 64 KiB of each.")
@scan_options
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
    group: str,
    reason: str,
    bodies: bool,
    **scan: Any,
) -> ExitCode:
    """List the jobs of TUBE by their ids, state by state.

    left is how many seconds are left of a delay or a time to run, why is what the worker said that failed last, if the
    server knows it; --json has more, such as how the last attempts failed.

    A server that knows list-jobs gives them page by page: each job that is there throughout is shown once. Another has
    no command for that: ids are asked for, one after the other, around those of the next ready, delayed and buried job
    and the newest one, until as many jobs are found as the tube has. That takes a few seconds for a million ids, and
    the server as many lookups. --from and --to look at certain ids instead. Exit code 1: not all jobs were found.

    Options with (*) need a server that knows them.
    """
    if in_order and "reserved" in states:
        raise click.UsageError("--next is about jobs that workers get; those that are reserved have no order")
    if in_order and group and states not in {(), ("ready",)}:
        raise click.UsageError("--next with --group is about ready jobs")
    chosen = states or (("ready",) if in_order and group else IN_ORDER if in_order else STATES)
    wanted = Filter(chosen, limit, after or 0, text=text, reason=reason, is_dead=dead, in_order=in_order)
    wanted = replace(wanted, group=group)
    wanted = place_of(wanted, **scan)
    size = 0 if not bodies else BODY_BYTES if out.as_json else BODY_SHOWN * 4
    failures: Any = []

    def rows() -> Iterator[dict[str, object]]:
        try:
            for page in listed(server.client(), tube, wanted, bodies=size, with_fields=True):
                yield from (shape(job, bodies=bodies) for job in page)
        except Failure as failure:
            if failure.exit_code != ExitCode.FAILED:
                raise
            failures.append(failure)

    shape = record_of if out.as_json else row_of
    found = rows()
    first = [] if out.as_json else [*islice(found, FRAMES_MAX)]
    columns = [*(DEAD_COLUMNS if dead else COLUMNS), *(["body"] if bodies else [])]
    if any(row["group"] for row in first):
        columns.insert(columns.index("pri"), "group")
    out.table(columns, chain(first, found))
    for each in failures:
        out.flush()
        note(each.message)
    return ExitCode.FAILED if failures else ExitCode.OK


def row_of(job: JobInfo, *, bodies: bool) -> dict[str, object]:
    failed, died = job.reason or "", death_of(job)
    named = {"key": job.key or "", "group": job.group or ""}
    shown = job.as_dict() | named | {"left": int(job.left or 0), "death": died, "failed": failed}
    return shown | {"why": shortened(first_line(failed or died)), "body": preview(job.body) if bodies else ""}


def record_of(job: JobInfo, *, bodies: bool) -> dict[str, object]:
    """Return what is known of a job, with its body if that was asked for."""
    known = {
        name: value for name, value in job.as_dict().items() if value is not None and name not in {"body", "reason"}
    }
    said = {name: text for name, text in (("death", death_of(job)), ("failed", job.reason)) if text}
    if job.history:
        known["history"] = [asdict(each) for each in job.history]
    return known | {"left": int(job.left or 0)} | said | (body_fields(job.body) if bodies else {})


def death_of(job: JobInfo) -> str:
    """Return where and how a job died, in a sentence; empty: it has not."""
    return "" if job.died is None else death(job.origin or job.tube, job.tried or 0, job.why or "")


def preview(body: bytes) -> str:
    return shortened(cell(body[: BODY_SHOWN * 4].decode(errors="replace")))


def shortened(text: str) -> str:
    return text if len(text) <= BODY_SHOWN else text[: BODY_SHOWN - 1] + "…"
