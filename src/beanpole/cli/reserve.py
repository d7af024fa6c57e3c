"""``beanpole reserve``: take jobs, and finish them before the connection ends, which gives back what is reserved."""

import contextlib
import os
import subprocess
import sys

import click

from beanpole import limits
from beanpole.cli.common import PRIORITY, TUBE, Number, Output, Server, verb
from beanpole.cli.errors import note
from beanpole.cli.inspect import show
from beanpole.cli.quantities import SECONDS, Duration
from beanpole.client import Client, Job, StatsJob
from beanpole.errors import BeanpoleError, ExitCode, TimedOutError


@verb("reserve")
@click.argument("tubes", type=TUBE, nargs=-1, metavar="[TUBE]...")
@click.option(
    "--timeout",
    type=Duration(0, limits.RESERVE_TIMEOUT_S_MAX, whole=True),
    help="How long to wait for a job; 0: don't wait.  [default: for ever]",
)
@click.option(
    "--count", type=Number("n", 0, limits.PRI_MAX), default=1, show_default=True, help="Jobs to take; 0: all that come."
)
@click.option("--delete", is_flag=True, help="Delete the job when it is written.")
@click.option("--bury", is_flag=True, help="Bury the job when it is written; with --exec: if CMD fails.")
@click.option("--release", is_flag=True, help="Release it when it is written; with --exec: if CMD fails.")
@click.option(
    "--exec",
    "command",
    metavar="CMD",
    help="Run CMD in a shell, with the body as its input; delete the job if it succeeds.",
)
@click.option("--priority", type=PRIORITY, help="Priority of what is buried or released.  [default: as it was]")
@click.option("--delay", type=SECONDS, default=0, show_default=True, help="Delay of what is released.")
@click.option("--raw", is_flag=True, help="Write the body alone, byte by byte, on a terminal too.")
def reserve(
    server: Server,
    out: Output,
    *,
    tubes: tuple[str, ...],
    timeout: int | None,
    count: int,
    command: str | None,
    priority: int | None,
    delay: int,
    raw: bool,
    **ways: bool,
) -> ExitCode:
    """Reserve jobs of the TUBEs ("default" if none is named), and write them to standard output.

    A job is reserved as long as the connection lasts. So when this command ends, THE JOB IS READY AGAIN, unless you
    finish it with --delete, --bury, --release or --exec. It is deleted only after it is written: if the output can't
    be written, or this command is killed, the job is ready again.

    With --exec, CMD gets the body on its standard input and the id as JOB_ID. If it ends with 0 the job is deleted;
    else it is released with its priority and --delay, or buried with --bury. It is touched as long as CMD runs.

    Exit code 3: no job came within --timeout. 1: a CMD failed. With --count 0, running out of jobs is no error.

    A worker in one line: beanpole reserve TUBE --count 0 --exec CMD --bury
    """
    chosen = [way for way, said in ways.items() if said]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    finish = chosen[0] if chosen else None
    if command is not None and finish == "delete":
        raise click.UsageError("--exec deletes the job if CMD succeeds; --bury or --release say what to do if it fails")
    if not count and not delay and (finish == "release" or (command is not None and not finish)):
        raise click.UsageError("--count 0 would take what is released again and again: add --delay, or --bury")
    client, code, taken = server.client(watch=tubes or ("default",)), ExitCode.OK, 0
    while not count or taken < count:
        try:
            job = reserved(client, timeout, tubes)
        except TimedOutError:
            if count:
                note(f"no job came within {timeout} s")
                return code or ExitCode.TIMED_OUT
            return code
        taken += 1
        stats = client.stats_job(job)
        if command is None:
            show(out, job, stats, raw=raw)
            out.flush()
            settle(client, stats, finish, priority, delay)
        elif execute(client, out, job, stats, command):
            client.delete(job)
        else:
            settle(client, stats, finish or "release", priority, delay)
            code = ExitCode.FAILED
    return code


def reserved(client: Client[bytes], timeout: int | None, tubes: tuple[str, ...]) -> Job[bytes]:
    """Reserve a job; on a terminal say what is waited for, if it is. Raises TimedOutError."""
    if timeout != 0 and sys.stderr.isatty():
        with contextlib.suppress(TimedOutError):
            return client.reserve(0)
        where = " or ".join(tubes or ("default",))
        note(f"waiting for a job of {where}{'' if timeout is None else f', up to {timeout} s'}; Ctrl-C ends this")
    return client.reserve(timeout)


def settle(client: Client[bytes], stats: StatsJob, finish: str | None, priority: int | None, delay: int) -> None:
    """Delete, bury or release a job that is reserved; None: leave it so."""
    priority = stats.pri if priority is None else priority
    if finish == "delete":
        client.delete(stats.id)
    elif finish == "bury":
        client.bury(stats.id, priority)
    elif finish == "release":
        client.release(stats.id, priority, delay)


def execute(client: Client[bytes], out: Output, job: Job[bytes], stats: StatsJob, command: str) -> bool:
    """Run a command with a job's body as its input, and touch the job until it ends; return whether it succeeded."""
    out.flush()
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=sys.stderr.fileno() if out.as_json else None,
        env={**os.environ, "JOB_ID": str(job.id)},
    ) as process:
        body: bytes | None = job.body
        touching = True
        while True:
            try:
                process.communicate(body, stats.ttr / 2 if touching else None)
                break
            except subprocess.TimeoutExpired:
                body = None
                touching = touch(client, job)
    if process.returncode:
        note(f"job {job.id}: the command ended with {process.returncode}")
    if out.as_json:
        out.record({"id": job.id, "exit_code": process.returncode}, "")
    return process.returncode == 0


def touch(client: Client[bytes], job: Job[bytes]) -> bool:
    """Touch a job whose command runs; false, and a line, if it is not in our hands any more."""
    try:
        client.touch(job)
    except BeanpoleError as error:
        note(f"job {job.id} may be run by another worker as well: {error}")
        return False
    return True
