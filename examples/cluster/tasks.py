"""The worker of the example: it writes each number that it is given to a file.

Run it with ``NUMBERS=FILE BEANPOLE_URL=beanstalk://HOST:PORT,HOST:PORT beanpole worker tasks:worker``.
"""

import os
from pathlib import Path

from beanpole import Task, Worker

DONE = Path(os.environ.get("NUMBERS", "numbers"))

worker = Worker(concurrency=4)


@worker.handler("numbers")
async def note(job: Task) -> None:
    """Note a number, as any work would be done: when this returns, the job is deleted."""
    with DONE.open("a") as done:
        done.write(f"{job.body}\n")
