"""``beanpole put``: jobs from arguments, files and standard input."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import IO, Any

import click

from beanpole.cli.common import TUBE, Output, Server, jobs_text, verb
from beanpole.cli.errors import Failure, exit_code_of, explained, note, sentence_of
from beanpole.cli.options import given_options
from beanpole.client import Client, Inserted
from beanpole.errors import (
    BatchError,
    BeanpoleError,
    CannotConnectError,
    ConnectionLostError,
    ExitCode,
    UnexpectedReplyError,
    UnsupportedError,
)

READ_BYTES = 262_144  # at a time with --each-line


def headers(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    """Return headers by name; None: there are none. Raises BadParameter."""
    pairs = [each.partition("=") for each in given]
    if bad := next((each for each, (name, sign, _) in zip(given, pairs, strict=True) if not (name and sign)), None):
        raise click.BadParameter(f"NAME=VALUE is wanted, not {bad!r}")
    return {name: value for name, _, value in pairs} or None


@verb("put")
@click.argument("bodies", nargs=-1, metavar="[BODY]...")
@click.option("-t", "--tube", type=TUBE, default="default", show_default=True, help="The tube to put them into.")
@click.option(
    "-f", "--file", "files", type=click.File("rb"), multiple=True, help="A file that is a body; may be repeated."
)
@click.option("--each-line", is_flag=True, help="Make a job of each line of the files, or of standard input.")
@given_options("put")
@click.option(
    "--meta", metavar="NAME=VALUE", multiple=True, callback=headers, help="A header for who gets them; repeat. (*)"
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
    delay: float,
    ttr: int,
    **options: Any,
) -> ExitCode:
    """Put jobs, and print their ids.

    Each BODY is a job. Without BODY and --file, standard input is the body of one job; so it is for a BODY of "-".
    Bodies are bytes and are not changed: printf 'hello' has no line end, echo has one. With --each-line the line end
    does not belong to the body, an empty line is an empty body, and lines are put as they arrive.

    Options with (*), and a delay with a fraction, need a server that knows them; nothing is put if it does not. Where
    a job has the key, or was put with --once before, its id is printed; with --json, "outcome" says what happened.
    """
    if problem := misfit(options, delay, len(bodies), len(files), each_line=each_line):
        raise click.UsageError(problem)
    if sys.stdin.isatty() and ("-" in bodies or not (bodies or files)):
        note(f"type {'a job a line' if each_line else 'the body of a job'}; Ctrl-D at the start of a line ends it")
    client = server.client(tube)
    done = 0
    for piece in all_lines(files or [sys.stdin.buffer]) if each_line else [list(whole(bodies, files))]:
        try:
            done_here = put_all(client, piece, (priority, delay, ttr), options)
        except BatchError as error:
            return report_failures(client, out, error, done, piece, each_line=each_line)
        except CannotConnectError as error:
            if not done:
                raise
            raise Failure(f"{sentence_of(error)}; {done} put; {nothing_after(done)}", exit_code_of(error)) from error
        done += len(done_here)
        print_ids(out, done_here, done)
    return ExitCode.OK


def misfit(options: Mapping[str, Any], delay: float, body_count: int, file_count: int, *, each_line: bool) -> str:
    """Return what does not go together; empty: nothing."""
    return next(
        (
            problem
            for problem, is_wrong in {
                "--taken and --until are about a --key": options["key"] is None
                and (options["taken"] or options["until"]),
                "--delay and --at both say when a job is ready": options["at"] is not None and delay,
                "--within is about --taken replace": options["within"] is not None and options["taken"] != "replace",
                "--for is about --once": options["once_for"] is not None and options["once"] is None,
                "--once is about one job: another one with its token would not be put": options["once"] is not None
                and (each_line or body_count + file_count > 1),
                "--each-line takes lines of --file or of standard input, and no BODY": each_line and body_count,
            }.items()
            if is_wrong
        ),
        "",
    )


def put_all(
    client: Client[bytes], bodies: Sequence[bytes], numbers: tuple[int, float, int], options: Mapping[str, Any]
) -> Sequence[int | Inserted]:
    """Put jobs; return their ids, or what became of each if it has options that beanstalkd does not know.

    Raises BatchError when not all were put, UnsupportedError when none was because the server lacks an option.
    """
    priority, delay, ttr = numbers
    if isinstance(delay, int) and all(value is None for value in options.values()):
        return client.put_many(bodies, priority, delay, ttr)
    lost: ConnectionLostError | None = None
    pipeline = client.pipeline(raise_errors=False)
    results = [pipeline.put_job(body, priority, delay, ttr, **options) for body in bodies]
    try:
        pipeline.flush()
    except CannotConnectError:
        raise
    except ConnectionLostError as error:
        lost = error
    sent = [each for each in results if each.done]
    found = [each.error or each.result() for each in sent]
    errors = [each for each in found if isinstance(each, BeanpoleError)]
    if errors and isinstance(errors[0], UnsupportedError):
        raise errors[0]
    if errors or lost is not None:
        failure = BatchError(f"{len(errors)} of {len(found)} jobs were not put", found)
        raise failure from (lost or errors[0])
    return [each.result() for each in results]


def print_ids(out: Output, results: Sequence[int | Inserted], done: int) -> None:
    """Write ids.

    Raises Failure: they can't be written; the jobs are put all the same, and so are `done` in all.
    """
    try:
        for each in results:
            if isinstance(each, int):
                out.record({"id": each}, str(each))
            else:
                out.record({"id": each.id, "outcome": each.outcome}, str(each.id))
        out.flush()
    except OSError as error:
        were = "was" if done == 1 else "were"
        raise Failure(f"{jobs_text(done)} {were} put, but ids can't be written: {sentence_of(error)}") from error


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


def report_failures(
    client: Client[bytes], out: Output, error: BatchError, done: int, piece: Sequence[bytes], *, each_line: bool
) -> ExitCode:
    """Print the ids of what was put after all, and say what was not; return the exit code."""
    ids = [result for result in error.results if isinstance(result, int | Inserted)]
    sent, put = done + len(error.results), done + len(ids)
    print_ids(out, ids, put)
    lost = error.__cause__ if isinstance(error.__cause__, ConnectionLostError | UnexpectedReplyError) else None
    refused = [
        (number, result)
        for number, result in enumerate(error.results, done + 1)
        if isinstance(result, BeanpoleError) and result is not lost
    ]
    # Neighbours that are refused with the same words are one line.
    for _, neighbours in groupby(enumerate(refused), lambda each: (each[1][0] - each[0], str(each[1][1]))):
        (first, reason), *others = (each for _, each in neighbours)
        was = f"{bodies_text(first, first + len(others))} {'were' if others else 'was'} not put: "
        note((was if done + len(piece) > 1 else "") + explained(client, reason))
    rest = [nothing_after(sent)] if each_line or sent < done + len(piece) else []
    if lost is None:
        for text in rest:
            note(text)
        return exit_code_of(error)
    unknown = f"of {bodies_text(sent - sum(each is lost for each in error.results) + 1, sent)} it is not known"
    raise Failure("; ".join([sentence_of(lost), f"{put} put", unknown, *rest]), exit_code_of(lost))


def bodies_text(first: int, last: int) -> str:
    return f"body {first}" if first == last else f"bodies {first} to {last}"


def nothing_after(number: int) -> str:
    return f"nothing after body {number} was sent"
