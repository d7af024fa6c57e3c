"""Routers, servers and a database, which are killed, stand still, and are started again where they were."""

import asyncio
import math
import os
import random
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.databases import DatabaseServer
from tests.servers import HOST, START_TIMEOUT_S, free_port
from tests.soak.cluster.network import within

FROZEN_S = (0.2, 1.0, 5.0)
"""Longer than 3 s: a link counts as dead."""


class Mortal(ABC):
    """Something to which faults happen."""

    quiet_since = 0.0
    """When the last of them was over; infinite: one is not."""

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Take note that something happens to it."""
        self.quiet_since = math.inf
        yield
        self.quiet_since = time.monotonic()

    async def kill(self) -> None:
        """End it as a crash does, and start it again after a moment."""
        with self.trouble():
            await self.stop()
            await asyncio.sleep(random.random())
            await self.start()

    async def freeze(self) -> None:
        """Let it stand still for a while."""
        with self.trouble():
            self.signal(signal.SIGSTOP)
            await asyncio.sleep(random.choice(FROZEN_S))
            self.signal(signal.SIGCONT)

    @abstractmethod
    async def start(self) -> None:
        """Start it, and wait until it is ready."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send it a signal."""

    @abstractmethod
    async def stop(self) -> None:
        """End it."""


class Program(Mortal):
    """A server or a router, at an address of its own that it keeps."""

    def __init__(self, folder: Path, name: str, host: str, *flags: str) -> None:
        """A `host` that is not this machine's own address is a machine of the program's name."""
        self.name = name
        self.host = host
        self.port = free_port()
        self.ready = folder / f"{name}.ready"
        self.messages = folder / f"{name}.log"
        at = ["-l", f"{host}:{self.port}"] if flags[0] == "route" else ["-l", host, "-p", str(self.port)]
        self.command = [sys.executable, "-m", "beanpole", *flags, *at, "--ready-file", str(self.ready)]
        if host != HOST:
            self.command[:0] = within(name).split()
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.ready.unlink(missing_ok=True)
        with self.messages.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(*self.command, stdout=output, stderr=output)
        async with asyncio.timeout(START_TIMEOUT_S):
            while not self.ready.exists():
                assert not self.has_ended, f"{self.name} has ended:\n{self.messages.read_text()[-2000:]}"
                await asyncio.sleep(0.02)

    @property
    def has_ended(self) -> bool:
        return self.process is not None and self.process.returncode is not None

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    async def succeed(self) -> None:
        """Start a successor at the same address, then tell the old one to stop, and wait for its end."""
        old = self.process
        assert old is not None
        with self.trouble():
            await self.start()
            old.terminate()
            async with asyncio.timeout(START_TIMEOUT_S):
                await old.wait()

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


class Database(Mortal):
    """The PostgreSQL of a cluster."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.server = DatabaseServer(folder)
        self.server.start()
        self.url = self.server.url("postgres").replace("postgresql+psycopg:", "postgresql:")

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)

    def signal(self, number: int) -> None:
        self.server.signal(number)

    async def kill(self) -> None:
        with self.trouble():
            self.server.kill()
            await self.start()

    async def stop(self) -> None:
        self.server.stop()
