"""A worker of ours, whose jobs wait for it when its connections are lost: none is begun twice."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

from beanpole import Worker
from beanpole.worker import Task
from tests.soak.route.clients import Account, Connection
from tests.soak.route.programs import Program

KEPT_TUBES = ("kept-0", "kept-1")
KEEP_S = 60
SLOTS = 20
RUN_S = 3.0


class KeptWorker:
    """The worker, and who puts its jobs."""

    def __init__(self, routers: Sequence[Program], account: Account) -> None:
        self.routers = routers
        self.account = account
        addresses = [f"{each.host}:{each.port}" for each in routers]
        self.worker = Worker(f"beanstalk://{','.join(addresses)}", SLOTS, keep=KEEP_S)
        self.begun = Counter[str]()
        self.is_stopping = False
        self.worker.handler(*KEPT_TUBES)(self.handle)

    async def handle(self, task: Task[str]) -> None:
        """Take a while."""
        self.begun[task.body] += 1
        await asyncio.sleep(random.random() * RUN_S)

    async def put(self) -> None:
        """Put jobs until stopped, about as many as are done. One that is not answered may be there."""
        count = 0
        while not self.is_stopping:
            try:
                connection = await Connection.open(random.choice(self.routers))
                while not self.is_stopping:
                    await asyncio.sleep(RUN_S / 2 / SLOTS)
                    if self.account.backlog_max == 0:
                        continue
                    count += 1
                    tube, body = random.choice(KEPT_TUBES), str(count)
                    await connection.ask(f"use {tube}\r\n".encode())
                    await connection.ask(f"put 1 0 600 {len(body)}\r\n{body}\r\n".encode())
            except OSError:
                await asyncio.sleep(0.05)

    async def run(self) -> None:
        """Work until stopped."""
        working = asyncio.create_task(self.worker.serve())
        await self.put()
        self.worker.stop()
        await working

    def wrong(self) -> list[str]:
        """Return which jobs were begun more than once."""
        return [f"the handler of job {body} ran {count} times" for body, count in self.begun.items() if count > 1]
