"""How a verb ends that did not do what was asked: one line for people, or one object with --json, and an exit code."""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from beanpole.address import reason_of
from beanpole.cli.wrapping import json_text, wrapped
from beanpole.client import Client
from beanpole.errors import (
    ArgumentError,
    BatchError,
    BeanpoleError,
    CannotConnectError,
    ConnectionLostError,
    ExitCode,
    FileError,
    JobTooBigError,
    NotFoundError,
    RulesError,
    ScheduleError,
    TimedOutError,
)

# The exit code of an error; FAILED for all others.
CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (NotFoundError, ExitCode.NOT_FOUND),
    (TimedOutError, ExitCode.TIMED_OUT),
    (ConnectionLostError, ExitCode.NO_SERVER),
    (ArgumentError, ExitCode.USAGE),
    (FileError, ExitCode.USAGE),
    (RulesError, ExitCode.USAGE),
    (ScheduleError, ExitCode.USAGE),
)

SIGNAL_CODE = 128  # what a shell adds to the number of the signal that ended a command


def exit_code_of(error: BaseException | None) -> ExitCode:
    """Return the exit code that says what kind of error it is; FAILED for none."""
    if isinstance(error, BatchError) and isinstance(error.__cause__, BeanpoleError):
        error = error.__cause__
    return next((code for kind, code in CODES if isinstance(error, kind)), ExitCode.FAILED)


class Failure(click.ClickException):
    """One line for the user, and the exit code."""

    def __init__(self, message: str, exit_code: int = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it of the object
        self.ctx = click.get_current_context(silent=True)


@contextmanager
def missing(sentence: str) -> Iterator[None]:
    """Say this where the server's answer is NOT_FOUND.

    Raises Failure: it was.
    """
    try:
        yield
    except NotFoundError as error:
        raise Failure(sentence, ExitCode.NOT_FOUND) from error


# --- A verb that is stopped in the middle -----------------------------------------------------------------------------


class Stopped(KeyboardInterrupt):
    """SIGINT or SIGTERM came."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def reporting(story: Callable[[], str]) -> Iterator[None]:
    """Say how far a verb came, and how to go on, when an error or a signal ends it.

    Raises Failure: one of these did.
    """

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Stopped as stopped:
        raise Failure(f"interrupted; {story()}", SIGNAL_CODE + stopped.number) from stopped
    except (BeanpoleError, OSError) as error:
        raise Failure(f"{sentence_of(error)}; {story()}", exit_code_of(error)) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- Sentences --------------------------------------------------------------------------------------------------------


def sentence_of(error: BaseException) -> str:
    if isinstance(error, CannotConnectError) and isinstance(error.__cause__, OSError):
        return f"{error} (--url or BEANPOLE_URL says where the server is)"
    if isinstance(error, ConnectionLostError) and isinstance(error.__cause__, OSError):
        return str(error).replace(str(error.__cause__), reason_of(error.__cause__))
    return reason_of(error) if isinstance(error, OSError) and error.errno else re.sub(r"\[Errno \d+\] ", "", str(error))


def explained(client: Client[bytes], error: BaseException) -> str:
    """Return what an error says, and the limit of the server if a body was too big."""
    limit = client.stats().get("max-job-size") if isinstance(error, JobTooBigError) else None
    return sentence_of(error) + (f" of {limit} bytes" if limit is not None else "")


def note(text: str) -> None:
    """Say something that is no result, on standard error; as JSON if the verb was called with --json."""
    context = click.get_current_context(silent=True)
    as_json = context is not None and context.params.get("as_json")
    line = json_text({"note": text}) if as_json else wrapped(f"beanpole: {text}", sys.stderr)
    with contextlib.suppress(OSError, AttributeError):  # whoever writes the results says that nobody takes them
        sys.stdout.flush()  # the results so far stand before it where both go to one place
    click.echo(line, err=True)


def forget_output() -> None:
    """Have what could not be written go nowhere, or the interpreter would try it again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
