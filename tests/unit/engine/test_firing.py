"""When schedules fire, and what becomes of each of their times. The wall clock is the world's, with a lead."""

import re

import pytest

from beanpole.engine.state.records import Records, Room
from beanpole.testing.world import NS_PER_S, World

HOUR = 3_600
NOON = 1_764_590_400
"""2025-12-01T12:00:00Z, a Monday."""


class Scarce(Records):
    """Records with as much room as is said."""

    def __init__(self) -> None:
        self.room = Room.OK

    def room_for_put(self, size: int) -> Room:  # noqa: ARG002 - the engine's call
        return self.room

    room_for_change = room_for_put


class Clock(World):
    """A world whose wall clock can be set."""

    def __init__(self, wall_s: float = NOON, records: Records | None = None, body_bytes_max: int = 65_535) -> None:
        super().__init__(body_bytes_max, records=records)
        self.set_wall(wall_s)
        self.connect("a")

    @property
    def wall_s(self) -> float:
        return (self.now_ns + self.engine.wall_lead_ns) / NS_PER_S

    def set_wall(self, wall_s: float) -> None:
        self.engine.wall_lead_ns = int(wall_s * NS_PER_S) - self.now_ns

    def ask(self, line: str, body: bytes | None = None) -> str:
        self.send("a", f"{line}\r\n".encode() + (b"" if body is None else body + b"\r\n"))
        return self.output("a").decode()

    def set(self, name: str, *lines: str, body: str = "x") -> str:
        text = ("\n".join([*lines, "", body])).encode()
        return self.ask(f"set-schedule {name} {len(text)}", text).strip()

    def rules(self, tube: str, text: str) -> None:
        assert self.ask(f"set-rules {tube} {len(text)}", text.encode()) == "RULES_SET\r\n"

    def state(self, name: str) -> dict[str, str]:
        """The fields of the frame, but for the size."""
        line = self.ask(f"get-schedule {name}").partition("\r\n")[0]
        return dict(re.findall(r"(\w+)=(\S+)", line.replace("size=", "")))

    def counts(self, name: str) -> tuple[int, int, int]:
        state = self.state(name)
        return int(state["fires"]), int(state["skips"]), int(state["misses"])

    def next_s(self, name: str) -> float:
        return float(self.state(name)["next"]) - NOON

    def fired(self) -> list[tuple[float, int]]:
        """Takes all jobs that are ready; for which times, from noon on, and as which fires they were put."""
        found = self.ask("reserve-many 1000 0")
        jobs = re.findall(r"JOB (\d+) .*?scheduled=([\d.]+)(?: fire=(\d+))?", found)
        for job, _, _ in jobs:
            self.ask(f"delete {job}")
        return [(float(at) - NOON, int(fire or 0)) for _, at, fire in jobs]

    def pass_s(self, seconds: float) -> None:
        self.advance(int(seconds * NS_PER_S))
        self.check()

    def sleep_s(self, seconds: float) -> None:
        """Time passes unnoticed."""
        self.jump(int(seconds * NS_PER_S))
        self.advance(NS_PER_S // 100)
        self.check()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_schedules_nothing_is_due(clock: Clock) -> None:
    assert clock.engine.next_deadline_ns == -1
    assert clock.ask("list-schedules") == "SCHEDULES 0\r\n"
    assert clock.engine.next_deadline_ns == -1
    clock.set("s", "every: 60")
    clock.ask("drop-schedule s")
    clock.pass_s(2)
    assert clock.engine.next_deadline_ns == -1


def test_each_time_fires_once_and_is_numbered(clock: Clock) -> None:
    assert clock.set("s", "every: 10") == f"SCHEDULED {NOON + 10}"
    clock.pass_s(9.999)
    assert clock.fired() == []
    clock.pass_s(0.001)
    assert clock.fired() == [(10, 1)]
    for count in range(2, 5):
        clock.pass_s(10)
        assert clock.fired() == [(10 * count, count)]
    clock.ask("drop-schedule s")
    clock.set("s", "every: 10")
    clock.pass_s(10)
    assert clock.fired() == [(50, 1)]


def test_a_session_that_waits_gets_the_job_in_the_same_tick(clock: Clock) -> None:
    clock.set("s", "every: 10", "tube: t")
    clock.connect("b")
    clock.send("b", b"watch t\r\nreserve\r\n")
    clock.output("b")
    clock.pass_s(10)
    assert clock.output("b") == b"RESERVED 1 1\r\nx\r\n"


def test_the_job_is_as_the_lines_say(clock: Clock) -> None:
    clock.set("s", "every: 10", "pri: 7", "ttr: 3", "delay: 1.5", "key: k", "expire: 5")
    clock.pass_s(10)
    assert " state=delayed pri=7 ttr=3 " in clock.ask("list-jobs default delayed 10")
    clock.pass_s(1.5)
    assert "key=k schedule=s" in clock.ask("list-jobs default ready 10")
    clock.pass_s(5)
    assert clock.ask("list-jobs default ready 10") == "JOBS 0\r\n"


@pytest.mark.parametrize(
    ("done", "then"),
    [
        ("delete 1", (2, 1, 0)),
        ("release 1 0 100", (1, 2, 0)),
        ("touch 1", (1, 2, 0)),
        ("bury 1 0", (2, 1, 0)),
    ],
)
def test_while_the_last_job_is_there_a_time_is_skipped(clock: Clock, done: str, then: tuple[int, int, int]) -> None:
    clock.set("s", "every: 10")
    clock.pass_s(20)
    assert clock.counts("s") == (1, 1, 0)
    clock.ask("reserve")
    clock.ask(done)
    clock.pass_s(10)
    assert clock.counts("s") == then


def test_a_job_that_was_moved_or_is_dead_is_done(clock: Clock) -> None:
    clock.set("s", "every: 10")
    clock.pass_s(10)
    clock.ask("change-job 1 tube=u")
    clock.pass_s(10)
    assert clock.counts("s") == (2, 0, 0)
    clock.rules("default", "attempts: 1\ndead: default")
    clock.ask("reserve-job 2")
    clock.ask("fail-job 2 0", b"")
    clock.pass_s(10)
    assert clock.counts("s") == (3, 0, 0)


def test_with_overlap_all_fire(clock: Clock) -> None:
    clock.set("s", "every: 10", "overlap: allow")
    clock.pass_s(30)
    assert clock.fired() == [(10, 1), (20, 2), (30, 3)]


def test_a_taken_key_or_body_is_a_skip(clock: Clock) -> None:
    clock.set("s", "every: 10", "overlap: allow", "key: k")
    clock.set("u", "every: 10", "overlap: allow", "tube: u", body="b")
    clock.rules("u", "unique: body")
    clock.ask("put-job 1 key=k", b"y")
    clock.ask("put-job 1 tube=u", b"b")
    clock.pass_s(10)
    assert (clock.counts("s"), clock.counts("u")) == ((0, 1, 0), (0, 1, 0))
    assert clock.ask("fire-schedule s") == "EXISTS 1\r\n"
    assert clock.ask("fire-schedule u") == "EXISTS 2\r\n"
    clock.ask("delete 1")
    clock.ask("delete 2")
    clock.pass_s(10)
    assert (clock.counts("s"), clock.counts("u")) == ((1, 1, 0), (1, 1, 0))


def test_until_reserve_one_runs_and_one_waits(clock: Clock) -> None:
    clock.set("s", "every: 10", "overlap: allow", "key: k", "until: reserve")
    clock.pass_s(10)
    clock.ask("reserve")
    clock.pass_s(20)
    assert clock.counts("s") == (2, 1, 0)


def test_limits_of_the_tube_do_not_refuse_what_is_fired(clock: Clock) -> None:
    clock.rules("default", "jobs-max: 1")
    clock.ask("put 0 0 60 1", b"y")
    clock.ask("pause-tube default 100")
    clock.set("s", "every: 10")
    clock.pass_s(10)
    assert clock.counts("s") == (1, 0, 0)


# --- times that are missed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "late_s", "counts", "fired"),
    [
        ("misfire: once", 59, (5, 0, 0), [(10, 1), (20, 2), (30, 3), (40, 4), (50, 5)]),
        ("misfire: once", 75, (1, 0, 6), [(70, 1)]),
        ("misfire: skip", 75, (6, 0, 1), [(20, 1), (30, 2), (40, 3), (50, 4), (60, 5), (70, 6)]),
        ("late: 15", 75, (1, 0, 6), [(70, 1)]),
    ],
)
def test_what_is_late_fires_and_what_is_later_is_missed(
    clock: Clock, line: str, late_s: float, counts: tuple[int, int, int], fired: list[tuple[float, int]]
) -> None:
    clock.set("s", "every: 10", "overlap: allow", line)
    clock.sleep_s(late_s)
    assert (clock.counts("s"), clock.fired()) == (counts, fired)


def test_of_many_that_are_missed_the_latest_fires_and_a_hundred_are_counted(clock: Clock) -> None:
    clock.set("once", "cron: * * * * *", "late: 30")
    clock.set("skip", "cron: * * * * *", "late: 30", "misfire: skip")
    clock.sleep_s(7 * 24 * HOUR + 40)
    assert clock.counts("once") == (1, 0, 99)
    assert clock.counts("skip") == (0, 0, 100)
    assert clock.fired() == [(7 * 24 * HOUR, 1)]
    assert clock.next_s("skip") == 7 * 24 * HOUR + 60


def test_what_is_overdue_when_its_times_change_is_missed(clock: Clock) -> None:
    clock.set("s", "every: 10")
    clock.engine.draining = True
    clock.pass_s(35)
    clock.engine.draining = False
    assert clock.set("s", "every: 60") == f"SCHEDULED {NOON + 60}"
    assert clock.counts("s") == (0, 0, 3)
    clock.pass_s(25)
    assert clock.fired() == [(60, 1)]


@pytest.mark.parametrize("change", ["set", "pause"])
def test_a_time_that_has_come_is_missed_before_its_spread_is_over(clock: Clock, change: str) -> None:
    clock.set("s", "every: 3600", "spread: 3600")
    clock.pass_s(HOUR + 1)
    assert clock.counts("s") == (0, 0, 0)
    if change == "set":
        clock.set("s", "every: 1800", "spread: 3600")
    else:
        clock.ask("pause-schedule s on")
        clock.ask("pause-schedule s off")
    assert clock.counts("s") == (0, 0, 1)
    assert clock.next_s("s") > HOUR


def test_other_lines_leave_the_next_time(clock: Clock) -> None:
    clock.set("s", "every: 3600", "start: 2025-12-01T12:30:00Z")
    assert clock.set("s", "every: 3600", "start: 2025-12-01T12:30:00Z", "tube: u") == f"SCHEDULED {NOON + 1800}"
    clock.set("s", "every: 3600", "start: 2025-12-01T12:30:00Z", "spread: 600")
    state = clock.state("s")
    assert float(state["next"]) == NOON + 1800
    assert NOON + 1800 < float(state["due"]) < NOON + 2400


def test_a_pause_forgets_the_times_in_it(clock: Clock) -> None:
    clock.set("s", "every: 10")
    clock.ask("pause-schedule s on")
    clock.pass_s(100)
    clock.set("s", "every: 10", "tube: u")
    assert clock.state("s")["state"] == "paused"
    clock.ask("pause-schedule s off")
    assert (clock.counts("s"), clock.next_s("s")) == ((0, 0, 0), 110)


def test_spread_puts_later_and_says_the_plain_time(clock: Clock) -> None:
    clock.set("s", "every: 60", "spread: 30", "overlap: allow")
    due_s = float(clock.state("s")["due"]) - NOON
    clock.pass_s(due_s - 0.002)
    assert clock.fired() == []
    clock.pass_s(0.004)
    assert clock.fired() == [(60, 1)]
    clock.sleep_s(60 * 5)
    assert clock.fired() == [(360, 2)]
    assert clock.counts("s") == (2, 0, 4)


def test_nothing_left_is_the_end(clock: Clock) -> None:
    clock.set("s", "at: 2025-12-01T12:00:10Z")
    clock.set("e", "every: 10", "end: 2025-12-01T12:00:20Z", "overlap: allow")
    clock.pass_s(60)
    assert clock.fired() == [(10, 1), (10, 1), (20, 2)]
    assert {name: clock.state(name)["state"] for name in "se"} == {"s": "ended", "e": "ended"}
    assert clock.set("s", "at: 2025-12-01T12:00:10Z") == "SCHEDULED 0"


# --- the wall clock ---------------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_forward_is_seen_within_a_second(clock: Clock) -> None:
    clock.set("s", "cron: 0 18 * * *")
    clock.pass_s(10)
    clock.set_wall(NOON + 6 * HOUR)
    clock.pass_s(1)
    assert clock.fired() == [(6 * HOUR, 1)]


def test_a_clock_that_is_set_back_by_less_than_three_hours_is_waited_for(clock: Clock) -> None:
    clock.set("s", "every: 3600")
    clock.pass_s(HOUR)
    assert clock.fired() == [(HOUR, 1)]
    clock.set_wall(NOON - HOUR)
    clock.pass_s(3 * HOUR - 1)
    assert clock.fired() == []
    clock.pass_s(1)
    assert clock.fired() == [(2 * HOUR, 2)]
    assert "\nclock-sets: 0\n" in clock.ask("stats")


def test_a_wrong_clock_that_is_put_right_costs_a_fire_and_heals(clock: Clock) -> None:
    said: list[str] = []
    clock.engine.notice = said.append
    clock.set("s", "every: 3600")
    clock.set("y", "cron: 0 0 1 1 *", "late: 1000000000")
    clock.set("n", "cron: 30 13 * * *")
    clock.pass_s(1)
    clock.set_wall(NOON + 10 * 365 * 24 * HOUR)
    clock.pass_s(2)
    assert len(clock.fired()) >= 3
    clock.set_wall(NOON)
    clock.pass_s(599)
    assert said == []
    clock.pass_s(2)
    assert len(said) == 1
    assert "\nclock-sets: 1\n" in clock.ask("stats")
    assert clock.next_s("s") == HOUR
    assert clock.next_s("n") == 1.5 * HOUR
    clock.pass_s(HOUR)
    assert [at for at, _ in clock.fired()] == [HOUR]


def test_a_clock_that_is_far_behind_for_some_minutes_makes_nothing_fire_twice(clock: Clock) -> None:
    """As that of a machine which has just started, until it is put right."""
    clock.set("s", "every: 3600")
    clock.pass_s(HOUR)
    assert clock.fired() == [(HOUR, 1)]
    clock.set_wall(0)
    clock.pass_s(500)
    clock.set_wall(NOON + HOUR + 600)
    clock.pass_s(HOUR)
    assert clock.fired() == [(2 * HOUR, 2)]
    assert clock.counts("s") == (2, 0, 0)
    assert "\nclock-sets: 0\n" in clock.ask("stats")


# --- what can't fire --------------------------------------------------------------------------------------------------


def test_a_full_disk_blocks_and_what_is_late_then_is_missed() -> None:
    records = Scarce()
    clock = Clock(records=records)
    clock.set("s", "every: 10", "overlap: allow", "late: 15")
    records.room = Room.FULL
    clock.pass_s(12)
    assert clock.state("s")["blocked"] == "disk"
    assert "\nschedules-due: 1\n" in clock.ask("stats")
    assert clock.counts("s") == (0, 0, 0)
    records.room = Room.OK
    clock.pass_s(1)
    assert clock.fired() == [(10, 1)]
    assert "blocked" not in clock.state("s")
    records.room = Room.FULL
    clock.pass_s(60)
    records.room = Room.OK
    clock.pass_s(1)
    assert clock.fired() == [(70, 2)]
    assert clock.counts("s") == (2, 0, 5)


def test_what_waits_for_the_end_of_the_turn_fires_soon() -> None:
    records = Scarce()
    clock = Clock(records=records)
    clock.set("s", "every: 10")
    records.room = Room.WAIT
    clock.pass_s(10.01)
    records.room = Room.OK
    clock.pass_s(0.001)
    assert clock.fired() == [(10, 1)]


def test_a_server_that_drains_fires_nothing_and_does_not_spin(clock: Clock) -> None:
    clock.set("s", "every: 10")
    clock.drain()
    clock.pass_s(5_000)
    assert clock.counts("s") == (0, 0, 0)


def test_more_than_a_tick_can_fire_follow_in_the_next_ones(clock: Clock) -> None:
    for number in range(250):
        clock.set(f"s{number}", "every: 3600", "tube: t")
    clock.ask("watch t")
    clock.jump(HOUR * NS_PER_S)
    assert "current-jobs-ready: 100\n" in clock.ask("stats-tube t")
    assert "\nschedules-due: 150\n" in clock.ask("stats")
    clock.advance(1)
    assert len(clock.fired()) == 250


def test_each_change_of_a_schedule_is_a_record(clock: Clock) -> None:
    records = clock.engine.records
    before = records.index
    clock.set("s", "every: 10")
    clock.set("s", "every: 10")
    assert records.index == before + 1
    clock.pass_s(10)  # fires
    clock.pass_s(10)  # is skipped
    assert records.index == before + 3
    clock.ask("pause-schedule s on")
    clock.ask("pause-schedule s on")
    assert records.index == before + 4
    clock.ask("drop-schedule s")
    assert records.index == before + 5


def test_no_more_schedules_than_there_may_be(clock: Clock) -> None:
    clock.engine.schedules_max = 1
    clock.set("a", "every: 10")
    assert clock.set("b", "every: 10") == "BAD_SCHEDULE 0 there are 1 schedules already"
    assert clock.set("a", "every: 20") == f"SCHEDULED {NOON + 20}"
    assert clock.set("a", "every: 10", body="x" * 16_000).startswith("SCHEDULED")


def test_a_body_that_no_put_could_have_is_refused() -> None:
    clock = Clock(body_bytes_max=5)
    assert clock.set("s", "every: 10", body="123456") == "BAD_SCHEDULE 0 a job has 5 bytes at most here"
