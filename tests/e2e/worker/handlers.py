"""Handlers that run in processes: these import them from here."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from beanpole import Bury, Retry, Task


class PrivateError(Exception):
    """An error that can't be rebuilt from its arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


ERRORS = {
    "raise": ValueError("as the body says"),
    "raise-private": PrivateError("as the body ", "says"),
    "retry": Retry(delay=70),
    "bury": Bury("as the body says"),
}
SIGNALS = {"die": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}


def in_process(task: Task[str]) -> None:
    """Does what the body says: a verb, and a file to which this process writes its number."""
    verb, _, path = task.body.partition(" ")
    if verb == "hang-once":
        verb = "do" if Path(path).exists() else "hang"
        path = path if verb == "hang" else ""
    if path:
        Path(path).write_text(str(os.getpid()))
    if verb in ERRORS:
        raise ERRORS[verb]
    if verb in SIGNALS:
        os.kill(os.getpid(), SIGNALS[verb])
    elif verb == "exit":
        os._exit(7)
    elif verb == "stubborn":
        with contextlib.suppress(SystemExit):
            time.sleep(100)
        time.sleep(100)
    elif verb == "hang":
        time.sleep(100)
    elif verb == "fork" and os.fork() != 0:
        os.wait()


def in_process_many(tasks: list[Task[str]]) -> None:
    """Says of each job what its body says, and nothing of the rest."""
    for task in tasks:
        if task.body in ERRORS:
            task.fail(ERRORS[task.body])
        elif task.body == "done":
            task.done()
    raise OSError("of the call")


def note_around(task: Task[str], call: Callable[[], object]) -> None:
    """Middleware that writes the number of its process beside the file of the body, if it names one."""
    if path := task.body.partition(" ")[2]:
        Path(f"{path}-around").write_text(str(os.getpid()))
    call()


def is_alive(pid: int) -> bool:
    """Whether there is a process; one that has ended and was not waited for is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
