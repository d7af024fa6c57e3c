"""Random conversations with the engine and the model at once: every reply is the same, byte for byte.

Hypothesis invents them and, when one fails, shrinks it to the shortest that still does. After every rule the engine
checks its own invariants as well. Time moves by jumps: to a moment at which something is due, just before it, just
after it, or far beyond several of them.
"""

import operator
from typing import Any

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from beanpole.engine.restore import Restore
from beanpole.limits import ONCE_MAX, TUBES_MAX
from beanpole.testing.world import START_NS, World
from tests.model.bookkeeping import NEVER, SECOND
from tests.model.compare import compare_stats
from tests.model.extensions import PUT_OPTIONS, said
from tests.model.many import RESTING
from tests.model.model import NEEDS, Model
from tests.model.rules import BREAKING, GROUPING, TEXTS
from tests.model.schedules import BODIES, DELAYS, ONCE, PUTS, SPREADS, STEPS_NS, TEN_YEARS, TIMES

NAMES = "abcd"
OBSERVER = "o"
TUBES = ["default", "t", "u", "v"]
STEPS = 50
"""How many rules a conversation has at the most."""

JUMPS_NS = (-SECOND - 1, -SECOND, -SECOND + 1, -1, 0, 1, 1000, 3 * SECOND)
"""Where time may jump to, seen from the next moment at which something is due."""

IDS_OF_THE_FIRST = 10
"""Ids that are left in the range of a shard's first number, where it has a second one."""

LONG_NS = 20_000 * SECOND
"""For how long nobody waits for a schedule."""

jumps = st.sampled_from(JUMPS_NS)
tubes = st.sampled_from(TUBES)
ids = st.integers(0, 5)
"""Which job: 0 is the last one put, 1 the one before, and so on."""

pris = st.sampled_from([0, 1, 1023, 1024, 2**32 - 1])
delays = st.sampled_from([0, 0, 1, 2, 5])
bodies = st.sampled_from(["", "x", "two\r\nlines", "quit\r\n", "\x00\xff"])
options = st.fixed_dictionaries({}, optional={"pri": pris, "delay": st.sampled_from([0, 1, 2, 0.5])})
changes = st.fixed_dictionaries(
    {}, optional={"tube": tubes, "ttr": st.sampled_from([0, 1, 60]), "expire": st.sampled_from([0, 0.5, 2, 5])}
)
keys = st.sampled_from("kl")


def timed(options: dict[str, Any]) -> dict[str, Any]:
    """The same without what makes it a mistake."""
    if "at" in options:
        options.pop("delay", None)
    if options.get("taken") != "replace":
        options.pop("within", None)
    if "once" not in options:
        options.pop("for", None)
    return options


keyed = st.builds(
    operator.or_,
    st.builds(operator.or_, options, changes),
    st.fixed_dictionaries(
        {"key": keys},
        optional={name: st.sampled_from(values) for name, values in PUT_OPTIONS.items()},
    ),
).map(timed)
tokened = st.fixed_dictionaries({name: st.sampled_from(PUT_OPTIONS[name]) for name in ("once", "for")})
looks = ["peek-ready", "peek-delayed", "peek-buried", "list-tubes-watched", "list-tube-used"]

puts = st.tuples(st.just("put"), pris, delays, st.sampled_from([0, 1, 2, 3, 60]), bodies)
commands = st.one_of(
    puts,
    st.tuples(st.just("put"), st.just(0), st.just(0), st.just(60), st.just("y")),
    st.tuples(st.just("reserve-with-timeout"), st.sampled_from([0, 0, 0, 1, 2, 4])),
    st.tuples(st.sampled_from(["reserve-job", "delete", "touch", "kick-job", "peek", "cancel-job"]), ids),
    st.tuples(st.just("release"), ids, pris, delays),
    st.tuples(st.just("bury"), ids, pris),
    st.tuples(st.just("kick"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["use", "watch", "ignore"]), tubes),
    st.tuples(st.just("pause-tube"), tubes, st.sampled_from([0, 1, 3])),
    st.tuples(st.sampled_from(looks)),
    st.tuples(st.just("put-job"), bodies, st.builds(operator.or_, options, changes)),
    st.tuples(
        st.just("snooze-job"), ids, st.sampled_from([0, 0.5, 2]), st.fixed_dictionaries({}, optional={"pri": pris})
    ),
    st.tuples(st.just("fail-job"), ids, bodies, options),
    st.tuples(st.just("change-job"), ids, st.builds(operator.or_, options, changes)),
    st.tuples(st.just("change-body"), ids, bodies),
    st.tuples(st.just("reserve-many"), st.sampled_from([0, 1, 2, 5]), st.sampled_from([0, 0, 1, 0.5])),
    st.builds(
        lambda verb, some: (verb, *some),
        st.sampled_from(["delete-many", "touch-many"]),
        st.lists(ids, min_size=1, max_size=4),
    ),
    st.tuples(st.just("cancel-reserve")),
    st.tuples(st.just("put-job"), bodies, keyed),
    st.tuples(st.sampled_from(["find-job", "cancel-key"]), tubes, keys),
)

states = st.sampled_from(RESTING)
pages = [
    {},
    {"after": 3},
    {"bodies": 2},
    {"order": "next", "bodies": 5},
    {"after": 2, "fields": "reason,session,left,history"},
]
for_many = st.one_of(
    st.tuples(st.just("clear-tube"), tubes, states),
    st.tuples(st.just("clear-tube"), tubes),
    st.tuples(st.just("move-jobs"), tubes, states, st.integers(0, 3), st.fixed_dictionaries({"to": tubes})),
    st.tuples(st.just("move-jobs"), tubes, states, st.integers(0, 3), st.just({})),
    st.tuples(st.just("list-sessions"), st.sampled_from([{"limit": 2}, {"after": 1}])),
    st.tuples(st.just("name-session"), st.sampled_from(["w", "a: b #c", '"\\', "\xc2\xa0\xe2\x80\xa8"])),
    st.tuples(
        st.sampled_from(["stats-tubes", "stats-histograms"]), st.sampled_from([{"limit": 2}, {"after": "default"}])
    ),
    st.tuples(st.just("list-jobs"), tubes, states, st.integers(1, 4), st.sampled_from(pages)),
    st.tuples(st.just("list-jobs"), tubes, st.just("reserved"), st.just(5), st.just({"fields": "session,peer,left"})),
)

patterns = st.sampled_from(["*", "t", "t*", "u", "default", "d*"])
texts = st.sampled_from(TEXTS)
for_rules = st.one_of(
    st.tuples(st.just("set-rules"), patterns, texts),
    st.tuples(st.just("set-rules"), patterns, texts),
    st.tuples(st.just("drop-rules"), patterns),
    st.tuples(st.just("get-rules"), tubes),
    st.tuples(st.just("list-rules"), st.sampled_from([{"after": "*"}, {"after": "d*"}])),
)

names = st.sampled_from(["s", "s", "night"])
times = st.one_of(
    *[st.builds(operator.add, st.sampled_from(TIMES), st.sampled_from(SPREADS))] * 4, st.sampled_from(ONCE)
)
documents = st.builds("{}{}{}\n{}".format, times, *(st.sampled_from(each) for each in (DELAYS, PUTS, BODIES)))
for_schedules = st.one_of(
    *[st.tuples(st.just("set-schedule"), names, documents)] * 3,
    st.tuples(st.sampled_from(["get-schedule", "drop-schedule"]), names),
    st.tuples(st.just("pause-schedule"), names, st.sampled_from(["on", "off"])),
    st.tuples(st.just("fire-schedule"), names, st.fixed_dictionaries({}, optional={"at": st.sampled_from([0, 1.5])})),
    st.tuples(st.just("list-schedules"), st.sampled_from([{"limit": 1}, {"after": "night", "bodies": 9}])),
)


def bury(id: int, pri: int) -> list[tuple[Any, ...]]:
    """Buries a job that is not reserved."""
    return [("reserve-job", id), ("bury", id, pri)]


Phrases = dict[str, list[tuple[Any, ...]]]


def phrases(id: int, pri: int, tube: str) -> tuple[Phrases, ...]:
    """Commands that make more sense together than chance would bring about, by kind."""
    plain: Phrases = {
        "delay": [("put", pri, 1 + id % 3, 2, "x"), ("put", 0, 2, 3, "y")],
        "finish": [("reserve-job", id), ("delete", id)],
        "bury": bury(id, pri),
        "bury two": [("use", tube), ("put", pri, 0, 9, ""), ("put", 5, 0, 9, ""), *bury(1, pri), *bury(0, 5)],
        "both kinds": [("use", tube), ("put", 5, 0, 9, ""), ("put", pri, 3, 9, ""), *bury(1, pri), ("kick", 1)],
        "kick": [("use", tube), ("kick", 1 + id % 3)],
        "move": [("use", tube), ("watch", tube), ("ignore", "default")],
        "watch all": [*(("watch", other) for other in TUBES), ("ignore", tube)],
        "leave": [("use", "default"), ("ignore", tube), ("reserve-job", 0), ("delete", 0), ("use", tube)],
        "hold and wait": [("reserve-job", id), ("reserve-with-timeout", 1 + id)],
        "tie": [("put", pri, 0, 2 + id, ""), ("reserve-job", 0), ("reserve-with-timeout", 1 + id)],
    }
    changing: Phrases = {
        "snooze": [("reserve-job", id), ("snooze-job", id, 0.5 * (pri % 4), {})],
        "fail": [("reserve-job", id), ("fail-job", id, "why", {"delay": pri % 3})],
        "die": [("reserve-job", id), ("fail-job", id, "why", {"dead": "now"}), ("list-jobs", tube, "buried", 5, {})],
        "rise": [("reserve-job", id), ("fail-job", id, "", {"dead": "now"}), ("move-jobs", tube, "buried", 9, {})],
        "fail twice": [("reserve-job", id), ("release", id, pri, 0), ("reserve-job", id), ("fail-job", id, "", {})],
        "fail rules": [
            *[("set-rules", tube, "attempts: 1\ndead: v\n"), ("put-job", "x", {"tube": tube, "key": "k"})],
            *[("reserve-job", 0), ("release", 0, pri, 0), ("move-jobs", "v", "ready", 1, {})],
        ],
        "change held": [("reserve-job", id), ("change-job", id, {"ttr": 2}), ("touch", id)],
        "change": [("change-job", id, {"tube": tube, "pri": pri}), ("change-body", id, "longer")],
        "change buried": [*bury(id, pri), *bury(id + 1, pri), ("change-job", id, {"tube": tube, "pri": 3})],
        "many": [("watch", tube), ("reserve-many", 1 + id, 0), ("touch-many", 0, id), ("delete-many", id, 1)],
        "many and cancel": [
            ("watch", tube),
            ("reserve-many", 1 + id, 1 + id),
            ("cancel-reserve",),
            ("list-tube-used",),
        ],
    }
    with_keys: Phrases = {
        "take": [("use", tube), ("put-job", "x", {"key": "k"}), ("put-job", "y", {"key": "k", "taken": "replace"})],
        "supersede": [
            *[("put-job", "x", {"tube": tube, "key": "k", "ttr": 1 + id}), ("reserve-job", 0)],
            *[("put-job", "y", {"tube": tube, "key": "k", "taken": "replace"}), ("find-job", tube, "k")],
        ],
        "bury key": [("put-job", "x", {"key": "k"}), *bury(0, pri), ("put-job", "z", {"key": "k"}), ("kick", 2)],
        "free key": [
            *[("put-job", "x", {"tube": tube, "key": "k", "until": "reserve"}), ("reserve-job", 0)],
            *[("put-job", "y", {"tube": tube, "key": "k"}), ("release", 1, pri, 0)],
        ],
        "cancel key": [("put-job", "x", {"tube": tube, "key": "k"}), ("reserve-job", 0), ("cancel-key", tube, "k")],
        "move key": [("put-job", "x", {"tube": tube, "key": "k"}), ("change-job", id, {"tube": tube})],
    }
    with_times: Phrases = {
        "expire": [
            *[("put-job", "x", {"tube": tube, "expire": 1 + id, "delay": pri % 3}), ("reserve-job", id)],
            *[("release", id, pri, id), ("kick-job", 0), ("put-job", "y", {"expire": 0.5, "key": "k"})],
        ],
        "bury what expires": [
            *[("put-job", "x", {"tube": tube, "expire": 1, "ttr": 2}), *bury(0, pri), ("kick-job", id)],
        ],
        "hold what expires": [
            *[("put-job", "x", {"expire": 1, "ttr": 1 + id, "key": "k"}), ("reserve-job", 0)],
            *[("put-job", "y", {"expire": 2, "key": "l"}), ("change-job", id, {"expire": 1, "tube": tube})],
        ],
        "put off": [("put-job", "x", {"tube": tube, "key": "k", "taken": "replace", "delay": 1 + id, "within": 2.5})],
        "unique": [
            *[("set-rules", tube, "unique: body\n" if pri % 2 else "unique: body replace\n"), ("use", tube)],
            *[("put", pri, id % 2, 9, "x"), ("reserve-job", 0), ("put", 5, 0, 9, "x"), ("release", id % 2, pri, 0)],
            *[("put-job", "two\r\nlines", {}), ("change-body", 0, "x"), ("put", 1, 0, 9, "two\r\nlines")],
        ],
    }
    return plain, changing, with_keys, with_times


def phrase_of(shape: str, id: int, pri: int, tube: str) -> list[tuple[Any, ...]]:
    """The phrase of this name."""
    return next(group[shape] for group in phrases(id, pri, tube) if shape in group)


PLAIN, CHANGING, WITH_KEYS, WITH_TIMES = (st.sampled_from(list(group)) for group in phrases(0, 0, "t"))
shapes = st.one_of(PLAIN, PLAIN, CHANGING, WITH_KEYS, WITH_TIMES)
breaking = st.sampled_from(BREAKING)
grouping = st.sampled_from(GROUPING)
grouped = st.lists(st.tuples(st.sampled_from(["", "a", "a", "b"]), st.sampled_from([5, 5, 4])), min_size=3, max_size=6)
WAYS: dict[str, tuple[Any, ...]] = {
    "release": (5, 0),
    "fail-job": ("why", {}),
    "bury": (5,),
    "snooze-job": (0, {}),
    "delete": (),
}
"""How a worker ends with a job, and what it says besides its id."""

ways = st.sampled_from(list(WAYS))
lost = st.sampled_from(["quit", "disconnect", "half-close", "cut"])
told = st.sampled_from(
    [
        [],
        [("reserve-with-timeout", 0)],
        [("reserve-many", 0, 2)],
        [("reserve-many", 0, 0), ("reserve-many", 0, 0)],
        [("reserve",), ("delete", 0)],
        [("list-tube-used",)],
        [("ignore", "default")],
        [("quit",)],
    ]
)
"""What a session says that was told of a job; nothing: it is slow."""

tokens = st.sampled_from(["a" * 32, "b" * 32])
endings = st.sampled_from([{}, {}, {"ends": "all"}])


def bytes_of(verb: str, *words: Any) -> bytes:  # noqa: ANN401 - numbers and names
    """A command as a client sends it."""
    if verb == "put":
        *numbers, body = words
        return f"put {' '.join(map(str, numbers))} {len(body)}\r\n{body}\r\n".encode("latin-1")
    return said(verb, *words)


class Conversation(RuleBasedStateMachine):
    """The engine in its world, the model, and connections to both."""

    def __init__(self, world: Any = None, model: Model | None = None) -> None:  # noqa: ANN401 - or a server's
        super().__init__()
        self.world: Any = world or World()
        self.model = model or Model(START_NS)
        self.sessions: dict[str, Any] = {}
        self.unsent: dict[str, bytes] = {}
        """The rest of a command that has been sent in part; the model gets it when it is complete."""

        self.incomplete: dict[str, tuple[Any, ...]] = {}

    @initialize(
        tubes_max=st.sampled_from([NEVER, NEVER, 3]),
        once_max=st.sampled_from([NEVER, NEVER, 0, 2]),
        lead=st.sampled_from([0, TEN_YEARS]),
        shard=st.sampled_from([(), (), (1023,), (3, 17)]),
    )
    def begin(self, tubes_max: int, once_max: int, lead: int, shard: tuple[int, ...]) -> None:
        self.set_limits(tubes_max, once_max)
        self.set_shard(shard)
        self.set_lead(lead)
        for name in NAMES[:3]:
            self.connect(name)
        self.world.connect(OBSERVER)
        self.observer = self.model.connect()

    def set_limits(self, tubes_max: int, once_max: int) -> None:
        """Lets there be so many tubes, and tokens of puts that are done once."""
        self.model.tubes_max, self.model.once_max = tubes_max, once_max
        self.world.engine.tubes_max = min(tubes_max, TUBES_MAX)
        self.world.engine.once_max = min(once_max, ONCE_MAX)

    def set_shard(self, shard: tuple[int, ...]) -> None:
        """Lets both have numbers of a shard; of two the range of the first one ends soon."""
        self.model.set_shard(shard, IDS_OF_THE_FIRST)
        self.world.engine.set_shard(shard)
        if shard:
            Restore(self.world.engine).reach_job_id(self.model.last_id + 1)
            self.world.tick(0)

    def set_lead(self, lead: int) -> None:
        """Lets the wall clock be so far ahead."""
        self.model.lead = self.world.engine.wall_lead_ns = lead

    @rule(name=st.sampled_from(NAMES))
    def connect(self, name: str) -> None:
        if name not in self.sessions:
            self.world.connect(name)
            self.sessions[name] = self.model.connect()

    @rule(data=st.data(), tube=tubes, some=st.lists(puts, min_size=1, max_size=3))
    def put(self, data: st.DataObject, tube: str, some: list[tuple[Any, ...]]) -> None:
        self.say(self.choose(data), [("use", tube), *some])

    @rule(data=st.data(), shape=shapes, id=ids, pri=pris, tube=tubes)
    def say_phrase(self, data: st.DataObject, shape: str, id: int, pri: int, tube: str) -> None:
        self.say(self.choose(data), phrase_of(shape, id, pri, tube))

    @rule(data=st.data(), some=st.lists(commands, min_size=1, max_size=3))
    def say_anything(self, data: st.DataObject, some: list[tuple[Any, ...]]) -> None:
        self.say(self.choose(data), some)

    @rule(data=st.data(), command=for_many)
    def say_of_many(self, data: st.DataObject, command: tuple[Any, ...]) -> None:
        self.say(self.choose(data), [command])

    @rule(data=st.data(), command=for_rules)
    def say_rules(self, data: st.DataObject, command: tuple[Any, ...]) -> None:
        self.say(self.choose(data), [command])

    @rule(data=st.data(), some=st.lists(for_schedules, min_size=1, max_size=2))
    def say_schedules(self, data: st.DataObject, some: list[tuple[Any, ...]]) -> None:
        self.say(self.choose(data), some)

    @rule(data=st.data(), name=names, text=documents, tube=tubes, jumps=st.lists(jumps, min_size=1, max_size=5))
    def fire(self, data: st.DataObject, name: str, text: str, tube: str, jumps: list[int]) -> None:
        """Sets a schedule, perhaps with a session waiting for its jobs, and lets some of its times come."""
        self.say(self.choose(data), [("set-schedule", name, text)])
        self.say(self.choose(data), [("watch", tube), ("reserve-many", 2, 4)])
        for jump in jumps:
            self.jump_to(min(self.model.next_fire(), self.world.now_ns + LONG_NS) + jump)

    @precondition(lambda self: self.model.schedules)
    @rule(steps=st.lists(st.sampled_from(STEPS_NS), min_size=1, max_size=4))
    def set_clock(self, steps: list[int]) -> None:
        for step in steps:
            self.step_clock(step)

    @rule(data=st.data(), pattern=patterns, text=texts, tube=tubes, timeout=st.sampled_from([0, 1, 4]))
    def limit(self, data: st.DataObject, pattern: str, text: str, tube: str, timeout: int) -> None:
        """Rules for a tube that has jobs, and a client that waits for more of them than the rules hand out."""
        worker, other = self.choose(data), self.choose(data)
        self.say(worker, [("set-rules", pattern, text), ("use", tube), *[("put", 5, 0, 2, "x")] * 3])
        self.say(other, [("watch", tube), ("reserve-many", 2, 0), ("reserve-with-timeout", timeout)])

    @rule(data=st.data(), tube=tubes, text=breaking, ways=st.lists(ways, min_size=1, max_size=4), jump=jumps)
    def fail_jobs(self, data: st.DataObject, tube: str, text: str, ways: list[str], jump: int) -> None:
        """A tube with a breaker, a worker that ends with its jobs, and another one that waits for a probe."""
        worker, other = self.choose(data), self.choose(data)
        self.say(worker, [("set-rules", tube, text), ("use", tube), *[("put", 5, 0, 2, "x")] * 4])
        self.say(worker, [("watch", tube), ("reserve-many", 3, 0)])
        self.say(worker, [(way, place, *WAYS[way]) for place, way in enumerate(ways)])
        self.say(other, [("watch", tube), ("reserve-with-timeout", 2)])
        self.wait_for_deadline(jump)

    @rule(data=st.data(), tube=tubes, text=grouping, put=grouped, ways=st.lists(ways, max_size=3))
    def share(self, data: st.DataObject, tube: str, text: str, put: list[tuple[str, int]], ways: list[str]) -> None:
        """A tube with groups, and two workers, of which one ends with some of its jobs while the other one waits."""
        producer, worker, other = (self.choose(data) for _ in range(3))
        self.say(producer, [("set-rules", f"{tube}*", text)])
        for group, pri in put:
            named = ("put-job", "x", {"tube": tube, "pri": pri} | ({"group": group} if group else {}))
            self.say(producer, [("use", f"{tube};{group}"), ("put", pri, 0, 2, "y")] if pri == 4 else [named])
        self.say(worker, [("watch", tube), ("reserve-many", 3, 0)])
        self.say(other, [("watch", tube), ("reserve-with-timeout", 2)])
        self.say(worker, [(way, len(put) - place, *WAYS[way]) for place, way in enumerate(ways, 1)])
        self.say(worker, [("reserve-many", 3, 0)])

    @rule(data=st.data(), command=commands)
    def send_in_part(self, data: st.DataObject, command: tuple[Any, ...]) -> None:
        name = self.choose(data)
        if name not in self.unsent:
            [command] = self.with_ids([command])
            sent = bytes_of(*command)
            cut = data.draw(st.integers(1, len(sent) - 1))
            self.unsent[name], self.incomplete[name] = sent[cut:], command
            self.deliver(name, sent[:cut], [])

    @rule(names=st.permutations(NAMES), tube=tubes, timeout=st.sampled_from([1, 2, 4]))
    def wait_in_line(self, names: list[str], tube: str, timeout: int) -> None:
        for name in names[:3]:
            if name in self.sessions and name not in self.unsent and not self.sessions[name].waiting:
                self.say(name, [("watch", tube), ("reserve-with-timeout", timeout)])

    @rule(data=st.data(), tube=tubes, pri=pris)
    def kick_for_waiting(self, data: st.DataObject, tube: str, pri: int) -> None:
        """Two buried jobs, of which the later may be the better, a waiting client, and a kick."""
        worker, manager = self.choose(data), self.choose(data)
        self.say(manager, phrase_of("bury two", 0, pri, tube))
        self.say(worker, [("watch", tube), ("reserve-with-timeout", 1)])
        self.say(manager, [("kick", 2)])

    @rule(data=st.data())
    def wait_for_ever(self, data: st.DataObject) -> None:
        self.say(self.choose(data), [("reserve",), ("list-tube-used",)])

    @rule(
        names=st.permutations(NAMES),
        tube=tubes,
        how=st.sampled_from(["reserve", "reserve-many"]),
        cancels=st.booleans(),
    )
    def wait_for_many(self, names: list[str], tube: str, how: str, *, cancels: bool) -> None:
        """Somebody waits, perhaps with a cancel behind, and somebody else puts two jobs."""
        worker, producer, *_ = [name for name in names if name in self.sessions] * 2 or ["", ""]
        if worker and worker not in self.unsent:
            self.say(worker, [("watch", tube), ("reserve-many", 2, 4) if how == "reserve-many" else ("reserve",)])
            if cancels:
                self.say(worker, [("cancel-reserve",)])
        if producer and producer != worker:
            self.say(producer, [("use", tube), ("put", 1, 0, 9, "x"), ("put", 0, 0, 9, "y")])

    @rule(
        data=st.data(),
        tube=tubes,
        text=st.sampled_from(["", *TEXTS]),
        waits=st.lists(st.sampled_from([*[("reserve-many", 0, 3)] * 3, ("reserve",)]), min_size=2, max_size=4),
        put=grouped,
        says=st.lists(told, max_size=3),
        jump=jumps,
    )
    def tell(
        self,
        data: st.DataObject,
        tube: str,
        *,
        text: str,
        waits: list[tuple[Any, ...]],
        put: list[tuple[str, int]],
        says: list[list[tuple[Any, ...]]],
        jump: int,
    ) -> None:
        """Some sessions wait for jobs, or to be told of them; jobs come, and those that were told do this and that."""
        self.say(self.choose(data), [("set-rules", tube, text)])
        for command in waits:
            self.say(self.choose(data), [("watch", tube), command])
        for group, pri in put[: len(waits)]:
            options = {"tube": tube, "pri": pri, "ttr": 2} | ({"group": group} if group else {})
            self.say(self.choose(data), [("put-job", "x", options)])
        for some in says:
            self.say(self.choose(data), some)
        self.wait_for_deadline(jump)

    @rule(
        data=st.data(), tube=tubes, options=st.builds(operator.or_, tokened, st.one_of(st.just({}), keyed)), jump=jumps
    )
    def put_again(self, data: st.DataObject, tube: str, options: dict[str, Any], jump: int) -> None:
        """Puts what may have been put before, and again when its token ends, from elsewhere."""
        one, other = self.choose(data), self.choose(data)
        self.say(one, [("put-job", "x", options | {"tube": tube}), ("delete", data.draw(ids))])
        if found := self.model.once.get((tube, options["once"])):
            self.jump_to(found[1] + jump)
        self.say(other, [("use", tube), ("put-job", "y", {name: options[name] for name in ("once", "for")})])

    @rule(data=st.data(), token=tokens, options=endings, keep=st.sampled_from([0, 1, 3, 3, 60]), id=ids)
    def keep(self, data: st.DataObject, token: str, options: dict[str, Any], keep: int, id: int) -> None:
        self.say(self.choose(data), [("keep-session", keep, token, options), ("reserve-job", id)])

    @rule(data=st.data(), token=tokens, id=ids, jump=st.sampled_from([None, None, *JUMPS_NS]))
    def come_back(self, data: st.DataObject, token: str, id: int, jump: int | None) -> None:
        """Somebody loses its connection, perhaps for too long, and returns with another one."""
        name = self.choose(data)
        self.say(name, [("keep-session", 3, token, {}), ("put", 0, 0, 1 + 2 * id, "x"), ("reserve-job", 0)])
        if self.sessions[name] in self.model.sessions:
            self.cut(name)
            if jump is not None:
                self.wait_for_deadline(jump)
            self.connect(name)
            self.say(name, [("keep-session", 3, token, {}), ("touch", 0)])

    @rule(duration=st.sampled_from([SECOND, 5 * SECOND, 100 * SECOND]))
    def take_no_clients(self, duration: int) -> None:
        """All lose their connections, and for a while nobody can come back."""
        self.set_taking(takes=False)
        for name in sorted(self.sessions):
            if self.sessions[name] in self.model.sessions:  # else it went on as another one was cut, and has quit
                self.cut(name)
        self.jump_to(self.world.now_ns + duration)
        self.set_taking(takes=True)

    def set_taking(self, *, takes: bool) -> None:
        """Lets clients be taken, or nobody's time to return run."""
        if takes:
            self.model.take_clients()
            self.world.engine.take_clients(self.world.now_ns)
        else:
            self.model.stop_taking_clients()
            self.world.engine.stop_taking_clients()

    def cut(self, name: str) -> None:
        """Ends a connection by the server's side."""
        self.world.resumed.clear()
        self.world.connections[name].transport.cut = True
        self.world.disconnect(name)
        self.model.end(self.sessions[name], by_server=True)
        self.forget(name)
        self.follow("")

    @rule(data=st.data(), how=lost)
    def lose(self, data: st.DataObject, how: str) -> None:
        name = self.choose(data)
        session = self.sessions[name]
        if how == "quit" and name not in self.unsent:
            self.deliver(name, b"quit\r\nlist-tube-used\r\n", [("quit",), ("list-tube-used",)])
        elif how == "half-close":
            self.world.resumed.clear()
            self.world.half_close(name)
            self.model.half_close(session)
            self.follow(name)
        elif how == "disconnect":
            self.world.resumed.clear()
            self.world.disconnect(name)
            self.model.end(session)
            self.forget(name)
            self.follow("")
        elif how == "cut":
            self.cut(name)

    @rule(jump=jumps)
    def wait_for_deadline(self, jump: int) -> None:
        if (deadline := self.model.next_deadline()) < NEVER:
            self.jump_to(deadline + jump)

    @rule(duration=st.sampled_from([1, SECOND // 2, SECOND, 2 * SECOND, 10 * SECOND]))
    def wait(self, duration: int) -> None:
        self.jump_to(self.world.now_ns + duration)

    @precondition(lambda self: self.model.last_id > 4)
    @rule()
    def drain(self) -> None:
        self.world.drain()
        self.model.draining = True

    @invariant()
    def same(self) -> None:
        self.world.check()
        for name, session in list(self.sessions.items()):
            got, wanted = self.world.output(name), session.out.encode("latin-1")
            assert got == wanted, f"{name} got {got!r}, the model says {wanted!r}"
            session.out = ""
            closed = session not in self.model.sessions
            assert self.world.is_closed(name) == closed, f"{name} is closed on one side only"
            if closed:
                self.world.disconnect(name)
                self.forget(name)
        due_ns, armed_ns = self.model.next_deadline(), self.world.engine.next_deadline_ns
        assert due_ns >= NEVER or 0 <= armed_ns <= due_ns, f"due at {due_ns}, the engine wakes up at {armed_ns}"
        self.observe()
        self.model.check_promises()

    def observe(self) -> None:
        """Compares all that a client can find out, so that a mistake shows at the step that made it."""
        for command in [*self.seen(), ("stats",)]:
            self.world.send(OBSERVER, bytes_of(*command))
            self.observer.todo.append(command)
            self.model.run(self.observer)
            got, wanted = self.world.output(OBSERVER), self.observer.out.encode("latin-1")
            self.observer.out = ""
            if command == ("stats",):
                compare_stats(got, wanted)
            else:
                assert got == wanted, f"{command}: {got!r}, the model says {wanted!r}"

    def seen(self) -> list[tuple[Any, ...]]:
        """What a client can find out, but for `stats`."""
        seen: list[tuple[Any, ...]] = [("list-tubes",), *(("stats-tube", tube) for tube in TUBES)]
        seen += [(verb, max(self.model.last_id - id, 0)) for id in range(6) for verb in ("stats-job", "explain")]
        seen += [("explain-tube", tube) for tube in TUBES]
        seen += [("stats-groups", tube, {}) for tube in self.model.served]
        seen += [("list-schedules", {"bodies": 99}), ("list-schedules", {"order": "next"})]
        return [*seen, ("stats-tubes", {}), ("stats-histograms", {}), ("list-sessions", {})]

    # --- what rules share ---

    def choose(self, data: st.DataObject) -> str:
        """A session, rather one that does not wait: to one that does, anything can be said, but nothing happens."""
        if not self.sessions:
            self.connect("a")
        free = [name for name in sorted(self.sessions) if not self.sessions[name].waiting]
        return data.draw(st.sampled_from(free * 9 + sorted(self.sessions)))

    def say(self, name: str, some: list[tuple[Any, ...]]) -> None:
        """Sends whole commands, unless a quit that waited has closed the connection earlier in the same rule."""
        if self.sessions[name] not in self.model.sessions:
            return
        some = self.with_ids(some)
        sent = self.unsent.pop(name, b"") + b"".join(bytes_of(*command) for command in some)
        if earlier := self.incomplete.pop(name, None):
            some = [earlier, *some]
        self.deliver(name, sent, some)

    def deliver(self, name: str, sent: bytes, some: list[tuple[Any, ...]]) -> None:
        self.world.resumed.clear()
        self.world.send(name, sent)
        self.sessions[name].todo += some
        self.follow(name)

    def jump_to(self, now_ns: int) -> None:
        if now_ns >= self.world.now_ns:
            self.world.resumed.clear()
            self.world.tick(now_ns - self.world.now_ns)
            before = list(self.model.buried)
            self.model.tick(now_ns)
            assume(not self.model.tied)
            self.bury_as_the_engine([job for job in self.model.buried if job not in before])
            self.world.settle()
            self.follow("")

    def step_clock(self, step: int) -> None:
        """Sets the wall clock, and lets the server look at it, which it does each second."""
        self.set_lead(max(self.model.lead + step, -self.world.now_ns))
        self.jump_to(self.world.now_ns + SECOND)

    def bury_as_the_engine(self, jobs: list[Any]) -> None:
        """Lets jobs that died at the same time lie in the order in which the engine has buried them."""
        for tube in sorted({job.tube for job in jobs if len(jobs) > 1}):
            command = ("list-jobs", tube, "buried", 1000, {"order": "next"})
            got = self.look(command)
            order = [int(line.split()[1]) for line in got.split(b"\r\n") if line.startswith(b"JOB ")]
            places = [place for place, job in enumerate(self.model.buried) if job in jobs and job.tube == tube]
            moved = sorted((self.model.buried[place] for place in places), key=lambda job: order.index(job.id))
            for place, job in zip(places, moved, strict=True):
                self.model.buried[place] = job
            self.observer.todo.append(command)
            self.model.run(self.observer)
            wanted, self.observer.out = self.observer.out.encode("latin-1"), ""
            assert got == wanted, f"{command}: {got!r}, the model says {wanted!r}"

    def look(self, command: tuple[Any, ...]) -> bytes:
        """What the server answers the observer, whom nobody wakes, so that nobody else goes on yet."""
        observer = self.world.connections[OBSERVER]
        observer.receive(self.world.now_ns, bytes_of(*command))
        while observer.pending:
            observer.resume(self.world.now_ns)
        return bytes(observer.take_output())

    def follow(self, name: str) -> None:
        """Lets the model run the sessions that the world ran, in the same order: that order is the server's choice."""
        for other in [name, *self.world.resumed]:
            if other in self.sessions:
                self.model.run(self.sessions[other])
        stuck = [other for other, session in self.sessions.items() if session.todo and not session.waiting]
        assert not stuck, f"the commands of {stuck} were not resumed"

    def forget(self, name: str) -> None:
        for kept in (self.sessions, self.unsent, self.incomplete):
            kept.pop(name, None)

    def with_ids(self, some: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Commands as they are sent: with the ids of the jobs that they are about."""
        last_id, sent = self.model.last_id, []
        for verb, *words in some:
            last_id += verb in {"put", "put-job", "fire-schedule"}
            if verb in NEEDS:
                words[0] = max(last_id - words[0], 0)
            elif verb in {"delete-many", "touch-many"}:
                words[:] = [max(last_id - word, 0) for word in words]
            sent.append((verb, *words))
        return sent


def converse(machine: type[Conversation], count: int, **how: Any) -> None:  # noqa: ANN401 - settings of Hypothesis
    """Invents so many conversations, and has all of them. Raises AssertionError with the shortest one that fails."""
    wanted = settings(max_examples=count, stateful_step_count=STEPS, deadline=None, **how)
    run_state_machine_as_test(machine, settings=settings(wanted, suppress_health_check=list(HealthCheck)))
