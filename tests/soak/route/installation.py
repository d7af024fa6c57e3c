"""What the clients of a soak are at: routers before one server, or before the shards of a map that changes."""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beanpole.cli.shards import ask_all
from beanpole.client.login import Login
from beanpole.limits import SHARD_ID_BITS
from beanpole.log.postgres import admin
from beanpole.observe.shards import Review, take_shard_sample
from beanpole.shards.file import BEFORE_MAX, load
from tests.servers import HOST
from tests.soak.cluster.network import CLIENTS, Network
from tests.soak.route.clients import TUBES, Account
from tests.soak.route.programs import FROZEN_S, Database, Mortal, Program
from tests.soak.route.workers import KEPT_TUBES

SILENCE_MS = 1_000
WEIGHT_MAX = 3
SETTLE_S = 3.0
"""Seconds in which all routers have read a map that was written, and links that are silent have ended."""

DRAIN_S = 20.0
NODES = ("a-0", "a-1")
PROGRAMS = ("router-0", "router-1", "router-2", *NODES, "b", "c", "server")


class Installation:
    """Routers and a server."""

    def __init__(self, folder: Path, network: Network | None, mistake: str | None) -> None:
        """Without a network all of it is at one address. A `mistake` is made: see `tests.soak.route`."""
        self.folder = folder
        self.network = network
        self.mistake = mistake
        self.account = Account()
        self.shards: list[Sequence[Mortal]] = self.make_shards()
        to = self.route_flags()
        self.routers = [self.program(f"router-{n}", "route", *to, "--drain", "2s") for n in range(3)]

    @property
    def servers(self) -> list[Mortal]:
        return [each for shard in self.shards for each in shard]

    @property
    def programs(self) -> list[Program]:
        return [each for each in [*self.servers, *self.routers] if isinstance(each, Program)]

    def program(self, name: str, *flags: str) -> Program:
        return Program(self.folder, name, self.network.hosts[name] if self.network else HOST, *flags)

    def server(self, name: str, *flags: str) -> Program:
        """Return a server that keeps its log."""
        data = self.folder / f"{name}.data"
        data.mkdir()
        return self.program(name, "serve", *flags, *([] if self.mistake == "no-log" else ["-b", str(data)]))

    def make_shards(self) -> list[Sequence[Mortal]]:
        return [[self.server("server")]]

    def route_flags(self) -> list[str]:
        (server,) = self.programs_of(0)
        return ["--to", f"beanstalk://{server.host}:{server.port}"]

    def programs_of(self, number: int) -> list[Program]:
        return [each for each in self.shards[number] if isinstance(each, Program)]

    async def start(self) -> None:
        """Start all programs, the servers first."""
        for each in self.programs:
            await each.start()

    def check(self) -> None:
        """Raise AssertionError if a program has ended by itself."""
        for each in self.programs:
            assert not each.has_ended, f"{each.name} has ended by itself:\n{each.messages.read_text()[-2000:]}"

    async def stop(self) -> None:
        """End everything."""
        for each in [*self.routers, *self.servers]:
            await each.stop()

    def has_cause(self, router: Mortal, id: int, since: float) -> bool:
        """Whether something has happened since a moment for which who held a job behind a router may have lost it."""
        return max(each.quiet_since for each in [router, *self.shards[id >> SHARD_ID_BITS]]) + SETTLE_S > since

    async def cut(self, *, one_way: bool = False) -> None:
        """Drop for a while what a router and a server send to each other, or one to the other."""
        assert self.network is not None
        router = random.choice(self.routers)
        server = random.choice([each for each in self.programs if each not in self.routers])
        pair = [router.name, server.name]
        random.shuffle(pair)
        with router.trouble(), server.trouble():
            self.network.drop(pair[:1], pair[1:])
            if not one_way:
                self.network.drop(pair[1:], pair[:1])
            await asyncio.sleep(random.choice(FROZEN_S))
            self.network.heal()


class MappedInstallation(Installation):
    """Routers, and three shards: a cluster of two nodes, and two servers."""

    epoch = 0
    left_out = 0
    """Maps that are not before the newest any more."""

    def __init__(self, folder: Path, *given: Any) -> None:  # noqa: ANN401 - as above
        self.file = folder / "shards.toml"
        self.before: list[int] = []  # epochs of maps under which jobs may still lie
        super().__init__(folder, *given)

    def make_shards(self) -> list[Sequence[Mortal]]:
        database = Database(self.folder / "postgres")
        asyncio.run(admin.init(database.url, durability="local", silence_ms=SILENCE_MS, shard=(0,)))
        nodes = [self.program(each, "serve", "--cluster", database.url, "--node", each) for each in NODES]
        return [[*nodes, database], *([self.server(name, "--shard", str(n))] for n, name in enumerate("bc", 1))]

    def route_flags(self) -> list[str]:
        self.change()
        return ["--map", str(self.file)]

    def change(self) -> None:
        """Give tubes other homes."""
        weights = [random.randint(0, WEIGHT_MAX) for _ in self.shards]
        weights[random.randrange(len(weights))] = 1
        nodes = [",".join(f"{each.host}:{each.port}" for each in self.programs_of(n)) for n in range(len(weights))]
        shards = zip("abc", nodes, weights, strict=True)
        lines = [f'{x} = {{ number = {n}, nodes = "{at}", weight = {w} }}' for n, (x, at, w) in enumerate(shards)]
        homes = [name for name, weight in zip("abc", weights, strict=True) if weight]
        lines.append("[tubes]")
        for tube in random.sample([*TUBES, *KEPT_TUBES], 4):
            some = random.sample(homes, random.randint(1, len(homes)))
            lines.append(f"{tube} = {some}".replace("'", '"'))
        if self.epoch and self.mistake != "no-before":
            self.before.append(self.epoch)
        self.write("[shard]\n" + "\n".join(lines) + "\n")

    def write(self, text: str) -> None:
        """Write a map of the next epoch: for routers, and as one that will be before others."""
        self.epoch += 1
        self.text = text
        head = f"epoch = {self.epoch}\n"
        before = ", ".join(f'"{each}.toml"' for each in self.before)
        (self.folder / f"{self.epoch}.toml").write_text(head + text)
        whole = self.file.with_suffix(".new")
        whole.write_text(f"{head}before = [{before}]\n{text}")
        whole.rename(self.file)

    async def change_or_leave_out(self) -> None:
        """Change the map, or drop from `before` the maps that are no longer needed, as an operator does."""
        if len(self.before) < BEFORE_MAX and random.random() < 0.7:
            self.change()
            return
        self.account.backlog_max = 0
        give_up_at = time.monotonic() + DRAIN_S
        while self.before and time.monotonic() < give_up_at:
            if gone := await self.needless():
                self.before = [each for each in self.before if each not in gone]
                self.left_out += len(gone)
                self.write(self.text)
                break

    async def needless(self) -> list[int]:
        """Return which maps before may go when all routers have had time to read the newest."""
        await asyncio.sleep(SETTLE_S)
        newest = load(self.file)
        review = Review(newest, (await ask_all(newest, take_shard_sample, Login()))[0])
        said = [each.split()[0] for each in review.advice() if " may " in each]
        return [each for each in self.before if str(self.folder / f"{each}.toml") in said]


HOSTS = {name: f"10.77.0.{number}" for number, name in enumerate((CLIENTS, *PROGRAMS), 1)}
