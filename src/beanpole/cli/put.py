"""``beanpole put``: jobs from arguments, files and standard input."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import IO

import click

from beanpole import limits
from beanpole.cli.common import PRIORITY, SECONDS, TUBE, Output, Server, verb
from beanpole.cli.ending import exit_code_of, note
from beanpole.errors import BatchError, BeanpoleError, ExitCode

READ_BYTES = 262_144
"""Bytes that are asked for at a time with --each-line; what is there goes at once, so that a slow pipe is no delay."""


@verb("put")
@click.argument("bodies", nargs=-1, metavar="[BODY]...")
@click.option("-t", "--tube", type=TUBE, default="default", show_default=True, help="The tube to put them into.")
@click.option(
    "-f", "--file", "files", type=click.File("rb"), multiple=True, help="A file that is a body; may be repeated."
)
@click.option("--each-line", is_flag=True, help="Make a job of each line of the files, or of standard input.")
@click.option(
    "--priority", type=PRIORITY, default=limits.CLIENT_PRI_DEFAULT, show_default=True, help="The smallest comes first."
)
@click.option("--delay", type=SECONDS, default=0, show_default=True, help="Seconds until they are ready.")
@click.option(
    "--ttr", type=SECONDS, default=limits.CLIENT_TTR_S_DEFAULT, show_default=True, help="Seconds that a worker has."
)
def put(
    server: Server,
    out: Output,
    *,
    bodies: tuple[str, ...],
    files: tuple[IO[bytes], ...],
    each_line: bool,
    tube: str,
    priority: int,
    delay: int,
    ttr: int,
) -> ExitCode:
    """Put jobs, and print their ids.

    Each BODY is a job. Without BODY and --file, standard input is the body of one job; so is a BODY that is "-".
    Bodies are bytes, and are not changed: printf 'hello' has no line end, echo has one. With --each-line the line end
    does not belong to the body, an empty line is an empty body, and lines are put as they come.
    """
    if each_line and bodies:
        raise click.UsageError("--each-line takes lines of --file or of standard input, and no BODY")
    if not bodies and not files and sys.stdin.isatty():
        raise click.UsageError("nothing to put: give a BODY or --file, or pipe something in")
    client = server.client(tube)
    done = 0
    for piece in all_lines(files or [sys.stdin.buffer]) if each_line else [list(whole(bodies, files))]:
        try:
            ids = client.put_many(piece, priority, delay, ttr)
        except BatchError as error:
            return tell_failures(out, error, done, piece)
        done += len(ids)
        for id in ids:
            out.record({"id": id}, str(id))
        out.flush()
    return ExitCode.OK


def whole(bodies: Sequence[str], files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    """Return the bodies that are no lines of something."""
    for body in bodies:
        yield sys.stdin.buffer.read() if body == "-" else os.fsencode(body)
    for file in files:
        yield file.read()
    if not bodies and not files:
        yield sys.stdin.buffer.read()


def all_lines(files: Sequence[IO[bytes]]) -> Iterator[list[bytes]]:
    """Return the lines of files, as many at a time as there are without waiting."""
    for file in files:
        read = getattr(file, "read1", file.read)
        rest = b""
        while data := read(READ_BYTES):
            *complete, rest = (rest + data).split(b"\n")
            if complete:
                yield complete
        if rest:
            yield [rest]


def tell_failures(out: Output, error: BatchError, done: int, piece: Sequence[bytes]) -> ExitCode:
    """Print the ids of what was put after all, and say what was not; return the exit code."""
    for number, result in enumerate(error.results, done + 1):
        if isinstance(result, BeanpoleError):
            note(f"body {number} was not put: {result}" if done + len(piece) > 1 else str(result))
        else:
            out.record({"id": result}, str(result))
    if len(error.results) < len(piece):
        note(f"nothing was sent from body {done + len(error.results) + 1} on")
    return exit_code_of(error)
