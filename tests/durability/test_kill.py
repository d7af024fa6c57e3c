"""`kill -9` under load, again and again, on one directory: nothing that was acknowledged is lost, nothing returns.

A kill can't lose what the kernel has, so every policy must hold here. Small segments roll and are compacted many times
in a round, large ones not at all; now and then the server is killed once more while it starts, or stopped by SIGTERM
under the same load. The flags, the clients and the moments come from a seed.
"""

import random
import time
from pathlib import Path

from tests.durability.audit import Auditor
from tests.durability.kept import keeping, kill, starting, terminate
from tests.durability.ledger import Ledger, Market
from tests.durability.load import Buyer, Hermit, Seller, Worker
from tests.durability.small_disk import small_disk
from tests.e2e.process import Process, wait_until
from tests.servers import STOP_TIMEOUT_S

ROUND_COUNT = 15
FLAGS = (("-s", "65536"), ("-s", "65536", "-F"), ("-s", "100000", "-f", "20"), (), ("-s", "65536"))

FULL_ROUND_COUNT = 10
SMALL_DISK_BYTES = 2 << 20
"""Less than what the clients of a round want to keep."""

LOAD_S_MAX = 5.0
"""How long the clients of a round may take on a busy machine; a quiet one needs less than a second."""

HERMIT_COUNT = 8
BUYER_COUNT = 4
SELLER_COUNT = 4


def crowd(process: Process, round_: int, hermits: dict[str, Ledger], market: Market) -> list[Worker]:
    return [
        *(Hermit(process.connect(), f"{tube}-{round_}", tube, ledger) for tube, ledger in hermits.items()),
        *(Buyer(process.connect(), f"buyer{i}-{round_}", market) for i in range(BUYER_COUNT)),
        *(Seller(process.connect(), f"seller{i}-{round_}", market) for i in range(SELLER_COUNT)),
    ]


def end_under_load(process: Process, workers: list[Worker], answers: int, *, sigterm: bool) -> None:
    """Lets the clients get so many answers, or as many as there is time for, and ends the server then."""
    for each in workers:
        each.start()
    end_at = time.monotonic() + LOAD_S_MAX
    wait_until(
        lambda: (
            sum(each.acknowledged_count for each in workers) >= answers
            or time.monotonic() > end_at
            or process.popen.poll() is not None
            or any(each.failure for each in workers)
        ),
        "answers",
    )
    assert process.popen.poll() is None, f"the server ended by itself:\n{process.messages}"
    if sigterm:
        assert terminate(process) == 0, process.messages
    else:
        kill(process)
    for each in workers:
        each.join(STOP_TIMEOUT_S)
        assert not each.is_alive(), f"{each.name} waits for a server that is gone"
        if each.failure is not None:
            raise each.failure


def test_kill_under_load_loses_nothing_and_brings_nothing_back(tmp_path: Path) -> None:
    chance = random.Random(1)
    hermits = {f"hermit{i}": Ledger() for i in range(HERMIT_COUNT)}
    market = Market()
    auditor = Auditor(hermits, market)
    for round_ in range(ROUND_COUNT):
        flags = FLAGS[round_ % len(FLAGS)]
        with keeping(tmp_path, *flags) as process:
            with process.connect() as client:
                auditor.audit(client)
                auditor.check_counts(client)
            workers = crowd(process, round_, hermits, market)
            end_under_load(process, workers, chance.randint(1, 6000), sigterm=round_ % 5 == 3)
            assert not any(each.refused_count for each in workers), "the disk of this test is full"
        if round_ % 5 == 4:
            with starting(tmp_path, *flags) as process:
                kill_while_starting(process, tmp_path)
    with keeping(tmp_path) as process, process.connect() as client:
        auditor.audit(client)
        auditor.check_deleted(client)
    assert len(market.deleted) > ROUND_COUNT, "the load was no load"


def kill_while_starting(process: Process, directory: Path) -> None:
    """Kills a server as soon as it has touched its directory: before, while or shortly after it recovers."""
    before = sorted(path.name for path in directory.iterdir())
    wait_until(
        lambda: sorted(path.name for path in directory.iterdir()) != before or process.ready_file.exists(), "a change"
    )
    kill(process)


def live_bytes(hermits: dict[str, Ledger], market: Market) -> int:
    """About how many bytes of the log are alive."""
    bodies = [job.body for ledger in hermits.values() for job in ledger.jobs.values()] + list(market.put.values())
    return sum(len(body) + 100 for body in bodies)


def test_kill_while_the_disk_is_full(tmp_path: Path) -> None:
    chance = random.Random(2)
    hermits = {f"hermit{i}": Ledger() for i in range(HERMIT_COUNT)}
    market = Market()
    auditor = Auditor(hermits, market, may_be_full=True)
    refused_count = 0
    disk_bytes = SMALL_DISK_BYTES
    with small_disk(tmp_path, SMALL_DISK_BYTES) as disk:
        log = disk.path / "log"
        for round_ in range(FULL_ROUND_COUNT):
            # A disk that is full of live jobs has no room for the auditor's put. One that is half dead must get some:
            # above that, compaction can't promise it (ADR 14).
            disk_bytes = max(disk_bytes, 2 * live_bytes(hermits, market))
            disk.resize(disk_bytes)
            with keeping(log, "-s", "65536") as process:
                with process.connect() as client:
                    auditor.audit(client)
                    auditor.check_counts(client)
                workers = crowd(process, round_, hermits, market)
                end_under_load(process, workers, chance.randint(1, 3000), sigterm=round_ % 5 == 4)
                refused_count += sum(each.refused_count for each in workers)
        disk.resize(2 * disk_bytes)
        with keeping(log, "-s", "65536") as process, process.connect() as client:
            auditor.audit(client)
            auditor.check_deleted(client)
    assert refused_count > FULL_ROUND_COUNT, "the disk was not full"
