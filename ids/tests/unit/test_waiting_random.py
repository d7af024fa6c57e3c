"""Requests that wait while the store is slow or fails, rules change and the service stops: each is answered once."""

import asyncio
import random
from pathlib import Path

import pytest

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.errors import DatabaseLostError, StorageError
from beanpole_ids.rules.config import Config
from tests.unit.test_service import World, configure, play, until

WANTED: tuple[dict[str, object], ...] = ({}, {}, {"count": 3}, {"count": 40}, {"count": 1_000}, {"action": "monitor"})


class Deeds:
    """What may happen to a service, at random."""

    def __init__(self, world: World, chance: random.Random, configs: tuple[Config, ...]) -> None:
        self.world = world
        self.chance = chance
        self.configs = configs
        self.sent_count = 0

    async def send(self) -> None:
        rule, app = self.chance.choice(["day", "single", "long"]), self.chance.choice("ab")
        source = f"192.0.2.{self.chance.choice('12')}"
        for _ in range(self.chance.choice([1, 2, 60])):
            self.sent_count += 1
            fields = {"rule_name": rule, "app_name": app, "seq": self.sent_count} | self.chance.choice(WANTED)
            self.world.send(source, **fields)

    async def hold(self) -> None:
        self.world.store.open.clear()

    async def go_on(self) -> None:
        self.world.store.open.set()

    async def fail(self) -> None:
        self.world.store.error = StorageError("storage: gone")

    async def recover(self) -> None:
        self.world.store.error = None
        self.world.seconds += limits.STORE_RETRY_MS / 1000

    async def reload(self) -> None:
        await self.world.service.reload(self.chance.choice(self.configs))

    async def wait(self) -> None:
        for _ in range(self.chance.choice([1, 2, 5, 30])):
            await asyncio.sleep(0)


@pytest.mark.parametrize("end", ["all is served", "stop", "database lost"])
@pytest.mark.parametrize("seed", range(3))
def test_each_is_answered_once_and_no_number_comes_twice(tmp_path: Path, seed: int, end: str) -> None:
    config, changed = configs(tmp_path)

    async def story(world: World) -> None:
        chance = random.Random(f"{seed} {end}")
        deeds = Deeds(world, chance, (config, changed))
        all_deeds = [deeds.send, deeds.hold, deeds.go_on, deeds.fail, deeds.recover, deeds.reload, deeds.wait]
        for _ in range(150):
            await chance.choice([deeds.send, *all_deeds])()
        world.store.open.set()
        if end == "stop":
            world.service.counters.begin_stop()
        elif end == "database lost":
            world.service.counters.abandon(DatabaseLostError("gone"))
        await until(lambda: len(world.replies) >= deeds.sent_count)
        assert not world.service.waiting.queues
        assert sorted(each["seq"] for each in world.replies) == list(range(1, deeds.sent_count + 1))
        numbers = numbers_of(world)
        assert len(set(numbers)) == len(numbers) > 0
        used = [each for each in world.service.counters.loaded.values() if each.given_count]
        assert all(each.last <= world.store.marks[each.key].reserved for each in used), "a start must go on above them"
        assert not world.failures
        world.store.error = None

    play(tmp_path, story, config)


def numbers_of(world: World) -> list[tuple[str, str, str]]:
    """All numbers that clients have, with the rule and the application."""
    given = [each for each in world.replies if each["code"] == 0 and each["action"] == "get"]
    return [
        (each["rule_name"], each["app_name"], number)
        for each in given
        for number in (each["data"] if "count" in each else [each["data"]])
    ]


def configs(folder: Path) -> tuple[Config, Config]:
    """A configuration with room for many numbers, and one in which a rule counts otherwise and one is not there."""
    configure(folder)
    path = folder / "rules.toml"
    text = path.read_text().replace("{counter:04}", "{counter:08}")
    path.write_text(text)
    other = folder / "other.toml"
    other.write_text(text.replace("batch = 10\n", "batch = 20\n").replace('name = "long"', 'name = "other"'))
    return load(path), load(other)
