"""The run: clients ask while things happen; then everything stops, and what they got is judged."""

import time
from dataclasses import dataclass
from pathlib import Path

from tests.databases import Database
from tests.processes import START_TIMEOUT_S
from tests.soak.client import Client
from tests.soak.verdict import Verdict, judge
from tests.soak.world import World

CLIENT_COUNT = 8

NUMBERS_MIN = 2_000
"""So many numbers say something."""


def table(counts: dict[str, int]) -> str:
    """Counts in a line."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


@dataclass
class Report:
    """How it went."""

    database: str
    seed: int
    seconds: float
    happened: dict[str, int]
    losses: list[int]
    refused: dict[str, int]
    verdict: Verdict

    def __str__(self) -> str:
        verdict = self.verdict
        twice = len(verdict.duplicates)
        return (
            f"{self.database}, seed {self.seed}: {verdict.numbers} numbers in {self.seconds:.0f} s, {twice} twice\n"
            f"gaps: {verdict.gap_count}, of together {verdict.missing} numbers, after {sum(self.losses)} crashes\n"
            f"what happened: {table(self.happened)}\n"
            f"refused: {table(self.refused)}"
        )

    def check(self) -> None:
        """Fails if a number was given twice, or a gap has no reason."""
        assert not self.verdict.duplicates, f"given twice: {self.verdict.duplicates[:10]}\n{self}"
        unexplained = self.verdict.unexplained(self.losses)
        assert not unexplained, "\n".join(unexplained) + f"\n{self}"


def run(
    database: Database, folder: Path, seed: int, *, numbers: int, events: int, seconds: float, kills: bool = True
) -> Report:
    """Runs until so many numbers were given and so much has happened, or the time is over.

    However slow the machine, a few numbers are waited for.
    """
    world = World(database, folder, seed, kills=kills)
    clients = [Client(seed * 1_000 + number, world.nodes) for number in range(CLIENT_COUNT)]
    try:
        world.start()
        started_s = time.monotonic()
        for client in clients:
            client.start()
        while True:
            given = sum(client.given_count for client in clients)
            is_done = given >= numbers and sum(world.happened.values()) >= events
            if is_done or time.monotonic() > started_s + seconds + (given < NUMBERS_MIN) * START_TIMEOUT_S:
                break
            failed = [client.failure for client in clients if client.failure]
            if failed:
                raise failed[0]
            time.sleep(world.chance.uniform(0.05, 0.6))
            world.happen()
        world.stop()
    finally:
        world.kill()
        for client in clients:
            client.ending.set()
        for client in clients:
            if client.ident:
                client.join()
    assert not any(client.failure for client in clients), [client.failure for client in clients]
    refused: dict[str, int] = {}
    for client in clients:
        for name, count in client.refused.items():
            refused[name] = refused.get(name, 0) + count
    verdict = judge(client.got for client in clients)
    losses = [node.losses for node in world.nodes]
    return Report(database.name, seed, time.monotonic() - started_s, dict(world.happened), losses, refused, verdict)
