"""`kill -9` of a real server beside every command, extension and rule, again and again, for as long as is asked for.

python -m tests.soak.kills [SECONDS] [--seed N]

Each seed is a directory in which a server is killed twenty times. Its clients are those of `tests.durability`, and
residents, who use all extensions and rules and know by the reference model what each of their jobs must be. The
server's clock is the test's: it goes on at a start, and between two loads, so that delays, times to run and rules end.
In a second directory it is killed as often around the fires of schedules.
"""

import random
import tempfile
import time
from pathlib import Path

from beanpole.testing.world import NS_PER_S, START_NS
from tests.durability.audit import Auditor
from tests.durability.kept import keeping, kill, starting
from tests.durability.ledger import Ledger, Market
from tests.durability.test_kill import crowd, end_under_load
from tests.soak import fires
from tests.soak.clock import Clock
from tests.soak.residents import Account, Resident
from tests.soak.seeds import arguments, named, say, seeds

KILLS = 20
RESIDENTS = 6
QUIET_STEPS = 12
"""What each resident does before the clock moves, and the load begins."""

FLAGS = ((), ("-s", "4000000"), ("-s", "4000000", "-F"), ("-f", "20"))
"""Segments are rarely full: a job that dies and finds no room at once would wait for a clock that stands still."""

PAUSES_S = (0, 0, 1, 3, 40, 900)


def run(seed: int, folder: Path, clock: Clock, kills: int = KILLS) -> int:
    """Kill a server again and again; return how many commands were acknowledged. Raises AssertionError."""
    chance = random.Random(seed)
    hermits, market = {f"hermit{i}": Ledger() for i in range(4)}, Market()
    accounts = [Account(f"r{i}", clock) for i in range(RESIDENTS)]
    auditor, count = Auditor(hermits, market, accounts), 0
    for round_ in range(kills):
        flags = chance.choice(FLAGS)
        clock.now_ns += chance.choice(PAUSES_S) * NS_PER_S
        if chance.random() < 0.2:
            with starting(folder, *flags, env=clock.env) as process:
                time.sleep(chance.random() * 0.5)
                kill(process)
        with keeping(folder, *flags, env=clock.env) as process:
            with process.connect() as client:
                auditor.audit(client)
                auditor.check_counts(client)
            residents = [Resident(process.connect(), f"{seed}/{round_}/{each.home}", each) for each in accounts]
            for _ in range(QUIET_STEPS):
                for each in residents:
                    each.begin()
                    each.step()
            clock.now_ns += chance.choice(PAUSES_S) * NS_PER_S
            with process.connect() as client:
                for account in accounts:
                    account.audit(client, restarted=False)
            workers = [*crowd(process, round_, hermits, market), *residents]
            end_under_load(process, workers, chance.randint(1, 4000), sigterm=False)
            count += sum(each.acknowledged_count for each in workers)
    with keeping(folder, env=clock.env) as process, process.connect() as client:
        auditor.audit(client)
        auditor.check_counts(client)
        auditor.check_deleted(client)
    return count


def main() -> None:
    kills = count = put = 0
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        clock = Clock(Path(name), START_NS)
        for seed in seeds(arguments(__doc__).parse_args()):
            with named("kills", seed), tempfile.TemporaryDirectory(prefix="beanpole-") as folder:
                clock.now_ns = START_NS
                loaded, timed = Path(folder, "loaded"), Path(folder, "timed")
                loaded.mkdir()
                timed.mkdir()
                count += run(seed, loaded, clock)
                put += fires.run(seed, timed, clock, KILLS)
            kills += 2 * KILLS
            say(
                f"seed {seed}: {kills} kills, {count} commands acknowledged, lost 0, deleted and back 0, "
                f"{put} times of schedules put once, so far"
            )


if __name__ == "__main__":
    main()
