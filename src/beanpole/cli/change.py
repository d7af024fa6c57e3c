"""``beanpole change|snooze|fail``: what a server does to a job that knows more than beanstalkd's commands."""

import os
import sys
from typing import IO, Any

import click

from beanpole.cli.common import PRIORITY, TUBE, Output, Server, verb
from beanpole.cli.finish import IDS, finish, pieces, report, together
from beanpole.cli.quantities import DURATION, TTR
from beanpole.client import Result, StatsJob
from beanpole.client.errors import UnsupportedError
from beanpole.client.pipeline import Pipeline
from beanpole.errors import ExitCode


@verb("change")
@IDS
@click.option("-t", "--tube", type=TUBE, help="The tube to move them into; they keep their ids.")
@click.option("--priority", type=PRIORITY, help="Their new priority.")
@click.option("--delay", type=DURATION, help="How long from now until they are ready.")
@click.option("--ttr", type=TTR, help="How long a worker has.")
@click.option("--expire", type=DURATION, help="How long from now until they are deleted.")
@click.option("--body", help='Their new body; "-" is standard input.')
@click.option("-f", "--file", type=click.File("rb"), help="A file that is their new body.")
def change(
    server: Server, out: Output, *, ids: tuple[int, ...], body: str | None, file: IO[bytes] | None, **options: Any
) -> ExitCode:
    """Change jobs that nobody has reserved; they keep their ids, and what no option names.

    The server must know change-job, and change-body for a new body.
    """
    if body is not None and file is not None:
        raise click.UsageError("--body and --file are the same thing")
    has_options = any(value is not None for value in options.values())
    if body is None and file is None and not has_options:
        raise click.UsageError("nothing to change: give an option")
    data = None if body is None else sys.stdin.buffer.read() if body == "-" else os.fsencode(body)
    data = data if file is None else file.read()
    client, code = server.client(), ExitCode.OK

    for piece in pieces(ids):
        results = dict.fromkeys(piece, Result[Any]())
        if data is not None:
            results = dict(
                zip(piece, together(client, piece, lambda line, id: line.change_body(id, data)), strict=True)
            )
        left = [id for id, result in results.items() if result.error is None]
        if has_options:
            results |= zip(left, together(client, left, lambda line, id: line.change_job(id, **options)), strict=True)
        code = report(client, out, "change", "changed", list(results.items())) or code
    return code


@verb("snooze")
@IDS
@click.option("--priority", type=PRIORITY, help="Their new priority.  [default: the one they have]")
@click.option("--delay", type=DURATION, default=0, show_default=True, help="How long until they are ready.")
def snooze(server: Server, out: Output, ids: tuple[int, ...], priority: int | None, delay: float) -> ExitCode:
    """Put jobs off, which does not count as an attempt. The server must know snooze-job.

    A job that is reserved can only be put off by the client that reserved it. The job is reserved by its id for a
    moment, which counts as a reserve.
    """
    client = server.client()
    need(client.features(), "snooze-job")
    return finish(client, out, ("snooze", "snoozed"), ids, lambda line, job: line.snooze_job(job.id, delay, priority))


@verb("fail")
@IDS
@click.option("--reason", default="", help="Why; the server keeps 1 024 bytes of it.")
@click.option("--priority", type=PRIORITY, help="Their new priority.  [default: the one they have]")
@click.option(
    "--delay", type=DURATION, help="How long until they are ready.  [default: what the rules of the tube say]"
)
@click.option("--dead", is_flag=True, help="They are dead, whatever attempts are left.")
def fail(
    server: Server,
    out: Output,
    *,
    ids: tuple[int, ...],
    reason: str,
    **options: Any,
) -> ExitCode:
    """Let an attempt at jobs fail, as a worker does, and say which of them are dead. The server must know fail-job.

    A job that is reserved can only be failed by the client that reserved it. The job is reserved by its id for a
    moment, which counts as a reserve.
    """
    client = server.client()
    need(client.features(), "fail-job")

    def issue(pipeline: Pipeline[bytes], job: StatsJob) -> Result[Any]:
        return pipeline.fail_job(job.id, reason, **options)

    return finish(client, out, ("fail", lambda is_dead: "dead" if is_dead else "failed"), ids, issue)


def need(features: frozenset[str], feature: str) -> None:
    """Raises UnsupportedError before a job is reserved for something that the server can't do."""
    if feature not in features:
        raise UnsupportedError(feature)
