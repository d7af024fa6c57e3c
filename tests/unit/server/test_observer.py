"""How long turns take, and what an operator is told: of slow ones, and of a full disk."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.state.times import BOUNDS
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.connection import Connection
from beanpole.server.epoll import EpollTransport
from beanpole.server.logs import Logger, json_line
from beanpole.server.observer import LOG_FULL_REPORT_NS, Observer, SlowTurn
from beanpole.server.turn import Turn
from tests.unit.server.memory_transport import MemoryTransport

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000
PUT = b"put 0 %d 60 1\r\nx\r\n"


class Clock:
    """The time, which goes on when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS

    def __call__(self) -> int:
        return self.now_ns


class SlowClient(MemoryTransport):
    """A client whose commands take as long as the test says."""

    def __init__(self, turn: Turn, clock: Clock, name: str) -> None:
        super().__init__(turn)
        self.clock = clock
        self.name = name
        self.takes_ns = 0
        self.on_wake: Callable[[], None] = lambda: None

    def wake(self, now_ns: int, connection: Connection) -> int:
        self.clock.now_ns += self.takes_ns
        self.on_wake()
        return super().wake(now_ns, connection)

    def peer(self) -> str:
        return self.name


def placed(counts: tuple[int, ...], unit: str) -> dict[int, int]:
    """What a histogram has counted, by the bound that it is below."""
    return {bound: count for bound, count in zip(BOUNDS[unit], counts[:-1], strict=True) if count}


class Loop:
    """Runs nothing by itself."""

    def call_soon(self, callback: "Callable[[], None]") -> None:
        """Do nothing: the test runs the turns."""


class House:
    """A server without a process; it is its own observer."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.log = Log()
        self.turn = Turn(Engine(now_ns=1, records=self.log.records), self.log)
        self.sockets = EpollTransport(self.turn, Loop(), self, clock=self.clock)  # type: ignore[arg-type]
        self.slow: list[SlowTurn] = []

    def turn_slow(self, slow: SlowTurn) -> None:
        self.slow.append(slow)

    def client(self, name: str) -> SlowClient:
        return SlowClient(self.turn, self.clock, name)


def test_every_turn_counts_with_its_time_and_its_commands() -> None:
    house = House()
    client = house.client("one:1")
    for takes_us, commands in ((25, 3), (26, 1), (90_000, 5)):
        client.takes_ns = takes_us * 1_000
        client.arrive(b"list-tube-used\r\n" * commands)
        house.sockets.run()
    times = house.turn.engine.server_times
    assert (times.turn.sum, times.turn_commands.sum) == (90_051, 9)
    assert placed(times.turn.counts, "turn") == {25: 1, 50: 1, 100_000: 1}
    assert placed(times.turn_commands.counts, "commands") == {1: 1, 4: 1, 8: 1}
    assert sum(times.sync.counts) == 0, "a server without a log syncs nothing"


def test_sending_what_is_durable_is_a_turn_and_none_of_the_turns_that_run_commands() -> None:
    house = House()
    client = house.client("one:1")
    client.arrive(b"list-tube-used\r\n")
    house.sockets.run()
    house.sockets.send_held()
    times = house.turn.engine.server_times
    assert placed(times.turn_commands.counts, "commands") == {1: 1}
    assert times.turn_commands.sum == 1
    assert sum(times.turn.counts) == 2


def test_a_slow_turn_is_reported_with_its_commands_and_who_sent_most() -> None:
    house = House()
    one, other = house.client("one:1"), house.client("other:2")
    one.arrive(PUT % 0)
    house.sockets.run()
    one.arrive(b"delete 1\r\n")
    other.arrive(b"name-session mail-7:341 worker\r\n" + PUT % 0 * 3 + b"stats\r\n")
    other.takes_ns = 80 * MS
    house.sockets.run()
    [slow] = house.slow
    assert slow.took_ns == 80 * MS
    assert slow.commands == {"put": 3, "delete": 1, "stats": 1, "name-session": 1}, (
        "the put of the turn before is not in it"
    )
    assert (slow.connection, slow.client) == ("other:2", "mail-7:341 worker")
    assert 0 < slow.connection_cost_ns < slow.cost_ns
    assert slow.reason == "the machine"


@pytest.mark.parametrize(("took_ns", "count"), [(limits.SLOW_TURN_NS - 1, 0), (limits.SLOW_TURN_NS, 1)])
def test_a_turn_below_the_limit_is_not_reported(took_ns: int, count: int) -> None:
    house = House()
    client = house.client("one:1")
    client.takes_ns = took_ns
    client.arrive(b"stats\r\n")
    house.sockets.run()
    assert len(house.slow) == count


def test_nothing_of_a_turn_is_counted_to_the_next() -> None:
    house = House()
    client = house.client("one:1")
    client.arrive(PUT % 0 * 5)
    house.sockets.run()
    house.turn.note_pause("sync", 60 * MS)
    house.sockets.run()
    house.sockets.run()
    assert house.slow == [SlowTurn(60 * MS, {}, 0, "", 0, 0, {"sync": 60 * MS})]


def test_a_client_that_is_gone_has_no_address() -> None:
    house = House()
    client = house.client("one:1")
    client.takes_ns = 60 * MS
    client.arrive(b"stats\r\nquit\r\n")
    house.sockets.run()
    assert house.slow[0].connection == "closed by now"


def test_what_timers_moved_is_reported() -> None:
    house = House()
    client = house.client("one:1")
    client.arrive(PUT % 1 * 7)
    house.sockets.run()
    house.clock.now_ns += 2_000 * MS
    client.takes_ns = 60 * MS
    client.arrive(b"stats\r\n")
    house.sockets.run()
    assert house.slow[0].jobs_due_count == 7


def test_what_the_log_does_between_turns_counts_to_the_turn_behind_it() -> None:
    house = House()
    house.log.on_pause("rolling", 30 * MS)
    house.log.on_pause("rolling", 30 * MS)
    house.sockets.send_held()
    [slow] = house.slow
    assert (slow.took_ns, slow.waited_ns, slow.reason) == (60 * MS, {"rolling": 60 * MS}, "rolling")


def test_what_the_log_does_in_a_turn_is_not_counted_twice() -> None:
    house = House()
    client = house.client("one:1")
    client.takes_ns = 70 * MS
    client.on_wake = lambda: house.log.on_pause("write", 70 * MS)
    client.arrive(b"stats\r\n")
    house.sockets.run()
    [slow] = house.slow
    assert (slow.took_ns, slow.waited_ns, slow.reason) == (70 * MS, {"write": 70 * MS}, "write")


IDLE = SlowTurn(
    took_ns=100 * MS, commands={}, cost_ns=0, connection="", connection_cost_ns=0, jobs_due_count=0, waited_ns={}
)
"""A turn in which nothing happened."""


@pytest.mark.parametrize(
    ("reason", "slow"),
    [
        ("the machine", IDLE),
        ("the machine", replace(IDLE, cost_ns=49 * MS, waited_ns={"sync": 49 * MS})),
        ("commands", replace(IDLE, cost_ns=50 * MS)),
        ("timers", replace(IDLE, jobs_due_count=50 * MS // limits.MOVED_COST_NS + 1)),
        ("sync", replace(IDLE, cost_ns=20 * MS, waited_ns={"write": 30 * MS, "sync": 50 * MS})),
    ],
)
def test_the_reason_is_what_took_half_of_the_time(reason: str, slow: SlowTurn) -> None:
    assert slow.reason == reason


def test_one_line_a_second_says_how_many_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    observer = Observer(Logger(json_line), clock=clock)
    for _ in range(3):
        observer.turn_slow(
            replace(IDLE, commands={"put": 2}, cost_ns=1_400, connection="one:1", waited_ns={"sync": 99 * MS})
        )
        clock.now_ns += 400 * MS
    observer.turn_slow(replace(IDLE, connection=""))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["left_out"] for line in lines] == [0, 2]
    about = {key: lines[0][key] for key in lines[0] if key not in {"timestamp", "left_out", "level", "event"}}
    assert about == {
        "ms": 100.0,
        "reason": "sync",
        "connection": "one:1",
        "connection_cost_ms": 0.0,
        "commands": {"put": 2},
        "cost_ms": 0.0,
        "jobs_due": 0,
        "write_ms": 0.0,
        "sync_ms": 99.0,
        "rolling_ms": 0.0,
    }
    clock.now_ns += 1_000 * MS
    observer.turn_slow(replace(IDLE, connection="one:1", client="mail-7:341 worker"))
    assert json.loads(capsys.readouterr().err)["client"] == "mail-7:341 worker"
    assert (lines[1]["connection"], lines[1]["event"], lines[1]["level"]) == ("none", "slow turn", "warning")


def test_last_line_about_a_full_disk_is_true_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    observer = Observer(Logger(json_line), clock=clock)

    def said() -> list[str]:
        return [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]

    observer.log_full("No space left on device")
    observer.log_has_space()
    for _ in range(10):
        observer.log_full("No space left on device")
    assert said() == ["disk full", "disk has space"], "not more often than once in a while"
    clock.now_ns += LOG_FULL_REPORT_NS
    for _ in range(10):
        observer.log_full("No space left on device")
    assert said() == ["disk full"]
    observer.log_has_space()
    observer.log_has_space()
    assert said() == ["disk has space"]
