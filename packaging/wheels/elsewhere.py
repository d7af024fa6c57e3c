"""Tries an installed Beanpole where it has no server: `python packaging/wheels/elsewhere.py`, with its python.

`FakeServer` serves a blocking client, an asyncio client and a worker, in this process.
"""

import asyncio
import sys

import beanpole
import beanpole.pytest_plugin
from beanpole.testing import FakeServer

worker = beanpole.Worker()
sent = []


@worker.handler("mails")
def send(job: beanpole.Job) -> None:
    """Keep what would be sent."""
    sent.append(job.body)


async def other(url: str) -> str:
    """Put a job and get it back, in asyncio."""
    async with beanpole.AsyncClient(url) as client:
        await client.put("again")
        job = await client.reserve(timeout=0)
        await client.delete(job)
        return str(job.body)


def main() -> None:
    """Try it."""
    with FakeServer() as server:
        with beanpole.Client(server.address) as client:
            client.put("to: you", tube="mails", key="you")
        with server.running(worker):
            server.join("mails")
        if sent != ["to: you"]:
            sys.exit(f"the worker has sent {sent}")
        if (found := asyncio.run(other(server.address))) != "again":
            sys.exit(f"expected again, not {found}")
    print(f"Client, worker and FakeServer work with Python {sys.version.split()[0]} on {sys.platform}.")


if __name__ == "__main__":
    main()
