"""Routers and servers are killed and stand still, alone and together, while many clients work through the routers.

python -m tests.soak.route [SECONDS] [--seed N] [--clients N] [--routers N]

A server keeps its log on a disk; whoever is killed is started again where it was. What the clients were told stands in
`tests.soak.route.clients`, and is compared in the end with what is there.
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.servers import HOST, START_TIMEOUT_S, free_port
from tests.soak.route.clients import Account, Client, empty
from tests.soak.seeds import arguments, first_seed, say

FROZEN_S = (0.2, 1.0, 5.0)
"""Longer than 3 s: a link counts as dead."""

EMPTY_S = 120.0


class Program:
    """A server or a router, on a port of its own that it keeps."""

    def __init__(self, folder: Path, name: str, *flags: str) -> None:
        self.name = name
        self.port = free_port()
        self.ready = folder / f"{name}.ready"
        self.messages = folder / f"{name}.log"
        self.flags = flags
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.ready.unlink(missing_ok=True)
        where = f"{HOST}:{self.port}" if self.flags[0] == "route" else HOST
        command = [sys.executable, "-m", "beanpole", *self.flags, "-l", where, "--ready-file", str(self.ready)]
        if self.flags[0] == "serve":
            command += ["-p", str(self.port)]
        with self.messages.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        async with asyncio.timeout(START_TIMEOUT_S):
            while not self.ready.exists():
                assert self.process.returncode is None, f"{self.name} has ended:\n{self.messages.read_text()[-2000:]}"
                await asyncio.sleep(0.02)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    async def kill(self) -> None:
        """End it as a crash does, and start it again after a moment."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        await asyncio.sleep(random.random())
        await self.start()

    async def freeze(self) -> None:
        """Let it stand still for a while."""
        self.signal(signal.SIGSTOP)
        await asyncio.sleep(random.choice(FROZEN_S))
        self.signal(signal.SIGCONT)

    async def succeed(self) -> None:
        """Start a successor at the same address, then tell the old one to stop, and wait for its end."""
        old = self.process
        assert old is not None
        await self.start()
        old.terminate()
        async with asyncio.timeout(START_TIMEOUT_S):
            await old.wait()

    async def stop(self) -> None:
        """End it."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


Fault = Callable[[list[Program], list[Program]], Awaitable[object]]

FAULTS: dict[str, Fault] = {
    "a router is killed": lambda routers, _: random.choice(routers).kill(),
    "a router stands still": lambda routers, _: random.choice(routers).freeze(),
    "a router has a successor": lambda routers, _: random.choice(routers).succeed(),
    "a server is killed": lambda _, servers: random.choice(servers).kill(),
    "a server stands still": lambda _, servers: random.choice(servers).freeze(),
    "all routers are killed": lambda routers, _: asyncio.gather(*(each.kill() for each in routers)),
    "a server stands still while a router is killed": lambda routers, servers: asyncio.gather(
        random.choice(servers).freeze(), random.choice(routers).kill()
    ),
    "a server and a router are killed": lambda routers, servers: asyncio.gather(
        random.choice(servers).kill(), random.choice(routers).kill()
    ),
}


async def run(folder: Path, seconds: float, clients: int, count: int) -> tuple[Account, Counter[str]]:
    """Let things fail for a while; return what the clients were told and what failed."""
    server = Program(folder, "server", "serve", "-b", str(folder / "data"))
    (folder / "data").mkdir()
    to = ["--to", f"beanstalk://{HOST}:{server.port}"]
    routers = [Program(folder, f"router-{n}", "route", *to, "--drain", "2s") for n in range(count)]
    account, done = Account(), Counter[str]()
    try:
        for each in [server, *routers]:
            await each.start()
        crowd = [Client([each.port for each in routers], account, f"c{n}") for n in range(clients)]
        tasks = [asyncio.create_task(each.run()) for each in crowd]
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            await asyncio.sleep(random.random() * 2)
            name = random.choice(list(FAULTS))
            await FAULTS[name](routers, [server])
            done[name] += 1
        for client in crowd:
            client.is_stopping = True
        await asyncio.gather(*tasks)
        await empty(routers[0].port, account, EMPTY_S)
    finally:
        for each in [*routers, server]:
            await each.stop()
    return account, done


def main() -> int:
    """Run, and return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--routers", type=int, default=3)
    options = parser.parse_args()
    random.seed(first_seed(options))
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        account, done = asyncio.run(run(Path(name), options.seconds, options.clients, options.routers))
    say("\n".join(f"{count:4} × {fault}" for fault, count in sorted(done.items())))
    say(", ".join(f"{count} {what}" for what, count in account.counts().items()))
    say(f"wrong {len(account.wrong)}" + "".join(f"\n  {each}" for each in account.wrong[:20]))
    return bool(account.wrong)


if __name__ == "__main__":
    sys.exit(main())
