"""Groups against a scheduler that looks at every job each time: who is next, over all that can happen to a job."""

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from beanpole.engine.limits import GROUPS_PAUSED_MAX
from beanpole.testing.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000
STEPS = 2_000
STEPS_LONG = 150_000  # over all cases more than a million


@dataclass
class Known:
    """What the oracle knows of a job."""

    id: int
    group: str
    pri: int
    state: str = "ready"


class Oracle:
    """Looks at every job to say which is next."""

    def __init__(self, *, fair: bool, concurrency: int, weights: dict[str, int], strict: bool, hold: bool) -> None:
        self.strict, self.hold = strict, hold
        self.begun: dict[str, int] = {}
        self.had: set[int] = set()
        self.jobs: dict[int, Known] = {}
        self.served: dict[str, int] = {}
        self.paused: set[str] = set()
        self.count = 0
        self.fair, self.concurrency, self.weights = fair, concurrency, weights

    def note(self, group: str) -> None:
        """A group that is new, or that was served."""
        self.count += 1
        self.served[group] = self.count

    def put(self, id: int, group: str, pri: int) -> None:
        if group not in self.served:
            self.note(group)
        self.jobs[id] = Known(id, group, pri)

    def held(self, group: str) -> int:
        return sum(job.state == "reserved" for job in self.jobs.values() if job.group == group)

    def gone(self, id: int) -> None:
        group = self.jobs.pop(id).group
        if self.begun.get(group) == id:
            del self.begun[group]
        if not any(job.group == group for job in self.jobs.values()):
            del self.served[group]

    def begin(self, job: Known) -> None:
        """A job came out of a worker's hands, or into them."""
        if not self.strict:
            return
        if job.id in self.had and job.state != "buried":
            self.begun.setdefault(job.group, job.id)
        if job.state == "buried" and not self.hold and self.begun.get(job.group) == job.id:
            del self.begun[job.group]

    def next(self) -> Known | None:
        """Return the job that a reserve gets now."""
        ready: dict[str, list[Known]] = defaultdict(list)
        for job in self.jobs.values():
            if job.state == "ready":
                ready[job.group].append(job)
        best = None
        for group, jobs in ready.items():
            held = self.held(group)
            if group in self.paused:
                continue
            if self.concurrency and held >= self.concurrency:
                continue
            first = min(jobs, key=lambda job: (job.pri, job.id))
            if group in self.begun:
                begun = self.jobs[self.begun[group]]
                if begun.state != "ready":
                    continue
                first = begun
            share = held * 1000 // self.weights.get(group, 1)
            place = (0 if self.fair else first.pri, share, self.served[group])
            if best is None or place < best[0]:
                best = (place, first)
        return None if best is None else best[1]


DEFAULT: dict[str, object] = {"fair": False, "concurrency": 0, "weights": {}, "strict": False, "hold": False}


class Both:
    """An engine and the oracle, which are told the same."""

    def __init__(self, seed: int, rules: str = "", **oracle: object) -> None:
        self.random = random.Random(seed)
        self.world = World()
        for name in ("p", *(f"w{i}" for i in range(4))):
            self.world.connect(name)
        self.say("p", "watch t")
        for name in self.workers:
            self.say(name, "watch t\r\nignore default")
        if rules:
            assert self.say("p", f"set-rules t {len(rules)}\r\n{rules}") == "RULES_SET"
        self.oracle = Oracle(**(DEFAULT | oracle))  # type: ignore[arg-type]
        self.holders: dict[int, str] = {}

    workers = tuple(f"w{i}" for i in range(4))

    def say(self, name: str, line: str) -> str:
        self.world.send(name, line.encode() + b"\r\n")
        return self.world.output(name).decode().removesuffix("\r\n")

    # --- steps ---

    def put(self) -> None:
        group, pri = self.random.choice(["", "a", "b", "c", "d", "e"]), self.random.choice([1, 5, 5, 5])
        option = f" group={group}" if group else ""
        id = int(self.say("p", f"put-job 1 tube=t pri={pri} ttr=1000{option}\r\nx").removeprefix("INSERTED "))
        self.oracle.put(id, group, pri)

    def reserve(self) -> None:
        name = self.random.choice(self.workers)
        expected = self.oracle.next()
        reply = self.say(name, "reserve-with-timeout 0").split("\r\n")[0]
        assert reply == ("TIMED_OUT" if expected is None else f"RESERVED {expected.id} 1")
        if expected is not None:
            self.take(expected.id, name)

    def take(self, id: int, name: str) -> None:
        job = self.oracle.jobs[id]
        job.state = "reserved"
        self.oracle.had.add(id)
        self.oracle.note(job.group)
        self.oracle.begin(job)
        self.holders[id] = name

    def end(self, verb: str, reply: str, state: str) -> None:
        if not self.holders:
            return
        id = self.random.choice(list(self.holders))
        assert self.say(self.holders.pop(id), verb % id) == reply
        if state:
            self.oracle.jobs[id].state, self.oracle.jobs[id].pri = state, 5
            self.oracle.begin(self.oracle.jobs[id])
        else:
            self.oracle.gone(id)

    def one_of(self, state: str) -> Known | None:
        found = [job for job in self.oracle.jobs.values() if job.state == state]
        return self.random.choice(found) if found else None

    def delete_any(self) -> None:
        job = self.one_of(self.random.choice(["ready", "buried"]))
        if job is not None:
            assert self.say("p", f"delete {job.id}") == "DELETED"
            self.oracle.gone(job.id)

    def kick(self) -> None:
        job = self.one_of("buried")
        if job is not None:
            assert self.say("p", f"kick-job {job.id}") == "KICKED"
            job.state = "ready"
            self.oracle.begin(job)

    def reserve_job(self) -> None:
        job, name = self.one_of("ready"), self.random.choice(self.workers)
        if job is not None:
            assert self.say(name, f"reserve-job {job.id}").startswith(f"RESERVED {job.id} ")
            self.take(job.id, name)

    def change_pri(self) -> None:
        job = self.one_of("ready")
        if job is not None:
            job.pri = self.random.choice([1, 5])
            assert self.say("p", f"change-job {job.id} pri={job.pri}") == "CHANGED"
            self.oracle.begin(job)

    def move(self) -> None:
        job = self.one_of("ready")
        if job is not None:
            assert self.say("p", f"change-job {job.id} tube=u") == "CHANGED"
            self.oracle.gone(job.id)
            assert self.say("p", f"delete {job.id}") == "DELETED"

    def pause(self) -> None:
        group, seconds = self.random.choice("abcde"), self.random.choice([0, 1000])
        known = group in self.oracle.paused or any(job.group == group for job in self.oracle.jobs.values())
        assert self.say("p", f"pause-group t {group} {seconds}") == ("PAUSED" if known else "NOT_FOUND")
        if known and seconds:
            self.oracle.paused.add(group)
        else:
            self.oracle.paused.discard(group)

    def step(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.put, 6),
            (self.reserve, 6),
            (lambda: self.end("delete %d", "DELETED", ""), 3),
            (lambda: self.end("release %d 5 0", "RELEASED", "ready"), 1),
            (lambda: self.end("bury %d 5", "BURIED", "buried"), 1),
            (self.delete_any, 1),
            (self.kick, 1),
            (self.reserve_job, 1),
            (self.change_pri, 1),
            (self.move, 1),
            (self.pause, 1),
        ]
        self.random.choices([each for each, _ in steps], [weight for _, weight in steps])[0]()


CASES: dict[str, dict[str, object]] = {
    "plain": {},
    "fair": {"rules": "groups: fair\n", "fair": True},
    "concurrency": {"rules": "group-concurrency: 2\n", "concurrency": 2},
    "weights": {"rules": "group-weight: a=3 b=10\n", "weights": {"a": 3, "b": 10}},
    "strict": {"rules": "group-order: strict\n", "strict": True},
    "hold-buried": {"rules": "group-order: strict hold-buried\n", "strict": True, "hold": True},
    "all": {
        "rules": "groups: fair\ngroup-concurrency: 3\ngroup-weight: a=3 b=10\n",
        "fair": True,
        "concurrency": 3,
        "weights": {"a": 3, "b": 10},
    },
}


@pytest.mark.parametrize(("seed", "steps"), [(1, STEPS), pytest.param(2, STEPS_LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", CASES)
def test_order_is_that_of_the_oracle(case: str, seed: int, steps: int) -> None:
    both = Both(seed, **CASES[case])  # type: ignore[arg-type]
    for number in range(steps):
        both.step()
        if number % 50 == 0:
            both.world.check()


# --- single promises --------------------------------------------------------------------------------------------------


def producer_and_worker() -> World:
    """A world with both, of tube t."""
    world = World()
    for name in ("p", "w"):
        world.connect(name)
        world.send(name, b"use t\r\nwatch t\r\n")
        world.output(name)
    return world


@pytest.fixture
def world() -> World:
    return producer_and_worker()


def say(world: World, name: str, line: str) -> str:
    world.send(name, line.encode() + b"\r\n")
    world.check()
    return world.output(name).decode().removesuffix("\r\n")


def rules(world: World, text: str, pattern: str = "t") -> None:
    assert say(world, "p", f"set-rules {pattern} {len(text)}\r\n{text}") == "RULES_SET"


def put(world: World, group: str = "", options: str = "") -> int:
    option = f" group={group}" if group else ""
    return int(say(world, "p", f"put-job 1 tube=t{option}{options}\r\nx").removeprefix("INSERTED "))


def reserved(world: World, name: str = "w") -> int:
    """The job that a reserve gets; 0: none."""
    reply = say(world, name, "reserve-with-timeout 0")
    return 0 if reply == "TIMED_OUT" else int(reply.split()[1])


def test_one_group_of_many_jobs_does_not_hold_up_another(world: World) -> None:
    for _ in range(100):
        put(world, "big")
    small = put(world, "small")
    assert [reserved(world), reserved(world)] == [1, small]


def test_who_waits_gets_the_job_of_a_slot_that_is_free(world: World) -> None:
    rules(world, "group-concurrency: 1\n")
    first, second = put(world, "a"), put(world, "a")
    assert reserved(world) == first
    world.connect("v")
    world.send("v", b"watch t\r\nreserve\r\n")
    assert world.output("v") == b"WATCHING 2\r\n"
    assert say(world, "w", f"delete {first}") == "DELETED"
    assert world.output("v").startswith(b"RESERVED %d " % second)


def test_rate_of_a_group_holds_back_that_group_alone(world: World) -> None:
    rules(world, "group-rate: 1/s burst 1\n")
    world.advance(SECOND)
    first, second, other = put(world, "a"), put(world, "a"), put(world, "b")
    world.advance(SECOND)
    assert [reserved(world), reserved(world), reserved(world)] == [first, other, 0]
    world.connect("v")
    world.send("v", b"watch t\r\nreserve\r\n")
    world.output("v")
    world.advance(SECOND)
    assert world.output("v").startswith(b"RESERVED %d " % second)
    world.check()


def test_group_is_full_alone(world: World) -> None:
    rules(world, "group-jobs-max: 1\n")
    put(world, "a")
    assert say(world, "p", "put-job 1 tube=t group=a\r\nx") == "OUT_OF_MEMORY"
    assert say(world, "p", "put-job 1 tube=t group=b\r\nx") == "INSERTED 2"
    assert say(world, "p", "put 0 0 1 1\r\nx") == "INSERTED 3"
    assert say(world, "p", "put 0 0 1 1\r\nx") == "OUT_OF_MEMORY"


@pytest.mark.parametrize("line", ["put 0 0 60 1\r\nx", "put-job 1\r\nx"])
def test_put_into_a_split_tube_is_one_of_a_group(world: World, line: str) -> None:
    rules(world, "groups: split\n", "mail;*")
    rules(world, "group-concurrency: 1\n", "mail")
    assert say(world, "p", "use mail;42;x") == "USING mail;42;x"
    assert say(world, "p", line) == "INSERTED 1"
    assert "tube=mail state=ready" in (frame := say(world, "p", "list-jobs mail ready 1"))
    assert " group=42;x" in frame
    assert say(world, "p", "put-job 1 tube=mail;\r\nx") == "INSERTED 2"
    assert say(world, "p", "list-jobs mail; ready 1").startswith("JOBS 1")


def test_a_tube_is_as_before_when_its_groups_are_gone(world: World) -> None:
    ids = [put(world), put(world, "a"), put(world)]
    assert say(world, "p", f"delete {ids[1]}") == "DELETED"
    assert [reserved(world), reserved(world)] == [ids[0], ids[2]]


def test_so_many_groups_can_be_paused_and_no_more(world: World) -> None:
    for number in range(GROUPS_PAUSED_MAX + 1):
        world.send("p", b"put-job 1 tube=t group=%d\r\nx\r\npause-group t %d 60\r\n" % (number, number))
    replies = world.output("p").split(b"\r\n")[1::2]
    assert replies == [b"PAUSED"] * GROUPS_PAUSED_MAX + [b"OUT_OF_MEMORY"]
    assert say(world, "p", "pause-group t 7 60") == "PAUSED"
    assert say(world, "p", "pause-group t 7 0") == "PAUSED"
    assert say(world, "p", f"pause-group t {GROUPS_PAUSED_MAX} 60") == "PAUSED"
    assert reserved(world) == 8


def test_a_tube_is_there_while_a_group_of_it_is_paused(world: World) -> None:
    for tube in ("u", "v"):
        assert say(world, "p", f"put-job 1 tube={tube} group=g\r\nx").startswith("INSERTED ")
        assert say(world, "p", f"pause-group {tube} g 5") == "PAUSED"
    assert say(world, "p", "delete 1") == "DELETED"
    assert say(world, "p", "stats-groups u").endswith("  closed: [pause]\n  pause-time-left: 5\n")
    world.advance(5 * SECOND)
    assert say(world, "p", "stats-groups u") == "NOT_FOUND"
    assert "closed: []" in say(world, "p", "stats-groups v")


def test_rules_can_come_and_go_while_there_are_jobs(world: World) -> None:
    ids = [put(world, "a"), put(world, "a"), put(world)]
    assert reserved(world) == ids[0]
    rules(world, "group-concurrency: 1\n")
    assert [reserved(world), reserved(world)] == [ids[2], 0]
    assert say(world, "p", "drop-rules t") == "DROPPED"
    assert reserved(world) == ids[1]


def test_order_is_strict_no_more_when_the_rule_is_gone(world: World) -> None:
    rules(world, "group-order: strict\n")
    ids = [put(world, "a"), put(world, "a")]
    assert reserved(world) == ids[0]
    assert say(world, "w", f"release {ids[0]} 99999 0") == "RELEASED"
    assert say(world, "p", "drop-rules t") == "DROPPED"
    assert [reserved(world), reserved(world)] == [ids[1], ids[0]]


@pytest.mark.parametrize("lines", ["group-order: strict\n", ""])
def test_a_buried_job_holds_up_nobody_when_the_rule_does_not_say_so_any_more(world: World, lines: str) -> None:
    rules(world, "group-order: strict hold-buried\n")
    first, second = put(world, "a"), put(world, "a")
    assert reserved(world) == first
    assert say(world, "w", f"bury {first} 5") == "BURIED"
    assert reserved(world) == 0
    rules(world, lines)
    assert reserved(world) == second


def test_peek_shows_a_job_of_a_closed_group(world: World) -> None:
    rules(world, "group-concurrency: 1\n")
    first, second = put(world, "a"), put(world, "a")
    assert reserved(world) == first
    assert say(world, "p", "peek-ready").startswith(f"FOUND {second} ")
    assert say(world, "p", f"delete {second}") == "DELETED"
    assert say(world, "p", "peek-ready") == "NOT_FOUND"


def test_list_shows_no_group_twice_when_others_go_meanwhile(world: World) -> None:
    """The last group, which was looked at, takes the place of one that goes."""
    for number in range(3_000):
        world.send("p", b"put-job 1 tube=t group=%d\r\nx\r\n" % number)
    world.output("p")
    client = world.connections["p"]
    client.receive(world.now_ns, b"stats-groups t limit=1000\r\n")
    assert say(world, "w", "delete 1") == "DELETED"
    while not (listed := client.take_output()):
        client.resume(world.now_ns)
    names = [line for line in listed.splitlines() if line.startswith(b"- group:")]
    assert len(set(names)) == len(names) == 1_000


def test_group_is_kept_until_a_put_replaces_the_job(world: World) -> None:
    id = put(world, "a", " key=k")
    say(world, "p", f"change-job {id} tube=u")
    assert " group=a " in say(world, "p", "list-jobs u ready 1") + " "
    say(world, "p", f"change-job {id} tube=t")
    assert say(world, "p", "put-job 1 tube=t key=k taken=replace group=b\r\ny") == f"REPLACED {id}"
    assert " group=b" in say(world, "p", "list-jobs t ready 1")
    assert say(world, "p", "put-job 1 tube=t key=k taken=replace\r\ny") == f"REPLACED {id}"
    assert "group=" not in say(world, "p", "list-jobs t ready 1")


def test_reserve_many_gets_one_of_a_strict_group(world: World) -> None:
    rules(world, "group-order: strict\n")
    ids = [put(world, each) for each in ("a", "a", "b", "b")]
    assert say(world, "w", "reserve-many 10 0").count("JOB ") == 2
    assert say(world, "w", f"release {ids[0]} 99 0") == "RELEASED"
    assert reserved(world) == ids[0]
    assert say(world, "w", f"release {ids[0]} 99 10") == "RELEASED"
    assert reserved(world) == 0
    world.advance(10 * SECOND)
    assert reserved(world) == ids[0]
    assert say(world, "w", f"delete {ids[0]}") == "DELETED"
    assert reserved(world) == ids[1]


def test_list_shows_the_next_job_of_each_group(world: World) -> None:
    ids = [put(world, each) for each in ("a", "a", "b", "")]
    assert reserved(world) == ids[0]
    frames = say(world, "p", "list-jobs t ready 9 order=next").split("\r\n")
    assert [int(each.split()[1]) for each in frames if each.startswith("JOB ")] == [ids[2], ids[3], ids[1]]


@pytest.mark.parametrize("group", ["", "a b", "g" * 201, "\x7f"])
def test_what_is_no_group(world: World, group: str) -> None:
    assert say(world, "p", f"put-job 1 tube=t group={group}\r\nx") == "BAD_FORMAT"


@pytest.mark.parametrize(
    "line", ["group-weight: a=0", "group-weight: a=1 a=2", "group-weight: a", "groups: all", "group-order: fair"]
)
def test_what_is_no_rule_of_groups(world: World, line: str) -> None:
    assert say(world, "p", f"set-rules t {len(line)}\r\n{line}").startswith("BAD_RULES 1 ")
