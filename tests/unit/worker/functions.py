"""Functions of a worker that are put as jobs; some run in processes, which import them from here."""

import os
from pathlib import Path

from beanpole import Worker, current_task

worker = Worker("beanstalk://127.0.0.1:1", concurrency=2)
"""Nobody listens there: tests give it the server of theirs."""

calls: list[tuple[object, ...]] = []
"""What was called in this process: the arguments, and the job's attempt."""


@worker.function("sends")
def send(user: int, template: str = "hello", *, copies: int = 1) -> str:
    """Notes how it was called."""
    task = current_task()
    calls.append((user, template, copies, task and task.attempt))
    return f"{template} {user}"


@worker.function("fetches", max_attempts=1)
async def fetch(url: str) -> int:
    """Puts a job from the loop of the worker."""
    task = current_task()
    calls.append((url, task and task.attempt))
    return await send.aput(len(url), template=url)


@worker.function("writes", process=True)
def write(path: str) -> None:
    """Writes the number of its process to a file, and puts a job from there."""
    Path(path).write_text(str(os.getpid()))
    send.put(4, "from a process")


def shout(path: str) -> None:
    """The function itself keeps its name."""
    Path(path).write_text("loud")


put_shout = worker.function("shouts", process=True)(shout)
