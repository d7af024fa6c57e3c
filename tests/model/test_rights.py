"""Users get what the table of rights gives them, and nothing else: an engine with users beside one without.

The other engine hears only the commands that the user may give, with names of its own in the place of the tubes to
which there is no right. So all that the first one answers to these is what it would say if nobody had said anything
else: no byte, no number and no change comes from what was refused, or from a tube to which a user has no right.
"""

import re

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from beanpole.engine.state.user import User
from beanpole.protocol.rights import RIGHTS, Grants
from beanpole.testing.world import World
from tests.model.rights import Known, Patterns, Rights, refusal
from tests.seeds import seeds

SEEDS = seeds(60, "RIGHTS_SEED")
STEPS = 40
TUBES = ["default", "t", "t2", "u", "t;g"]
PATTERNS = [b"*", b"t", b"t*", b"u", b"default", b"t;g"]
CLIENTS = {"a1": "ann", "a2": "ann", "b1": "bob"}
ROOT = "root"
HIDDEN = "-hidden-from-"
SPLIT = "groups: split\n"
TEXTS = ["attempts: 1\ndead: u\n", "attempts: 1\ndead: t2\n", "unique: until=delete\n", SPLIT, "attempts: 2\n"]

SIZE = re.compile("^OK [0-9]+")
"""Names of hidden tubes are longer in the other engine."""

tubes = st.sampled_from(TUBES)
ids = st.integers(0, 4)
some_patterns = st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple)
granted = st.fixed_dictionaries({}, optional=dict.fromkeys(RIGHTS, some_patterns))
commands = st.one_of(
    st.builds("put 0 {} 9 1\r\nx".format, st.sampled_from([0, 0, 0, 1])),
    st.builds("put-job 1 tube={}{}\r\ny".format, tubes, st.sampled_from(["", " key=k", " group=g", " once=o"])),
    st.builds("{} {}".format, st.sampled_from(["use", "watch", "ignore", "stats-tube", "get-rules"]), tubes),
    st.builds("{} {}".format, st.sampled_from(["stats-groups", "clear-tube"]), tubes),
    st.builds("{} {} k".format, st.sampled_from(["find-job", "cancel-key"]), tubes),
    st.builds("pause-tube {} {}".format, tubes, st.sampled_from([0, 2])),
    st.builds("list-jobs {} {} 9 bodies=9".format, tubes, st.sampled_from(["ready", "buried"])),
    st.builds("move-jobs {} {} 2 to={}".format, tubes, st.sampled_from(["ready", "buried"]), tubes),
    st.sampled_from(["peek-ready", "peek-delayed", "peek-buried", "kick 2", "list-tube-used", "list-tubes-watched"]),
    st.builds("reserve-with-timeout {}".format, st.sampled_from([0, 0, 2])),
    st.sampled_from(["reserve-many 2 0", "reserve-many 2 1"]),
    st.builds(
        "{} {{{}}}".format,
        st.sampled_from(["delete", "delete", "peek", "kick-job", "reserve-job", "cancel-job", "stats-job", "touch"]),
        ids,
    ),
    st.builds("{} {{{}}} 0".format, st.sampled_from(["bury"]), ids),
    st.builds("release {{{}}} 0 {}".format, ids, st.sampled_from([0, 1])),
    st.builds("fail-job {{{}}} 1\r\nf".format, ids),
    st.builds("change-job {{{}}} tube={}".format, ids, tubes),
    st.builds("change-body {{{}}} 1\r\nz".format, ids),
    st.builds("delete-many {{{}}} {{{}}}".format, ids, ids),
    st.builds("drop-rules {}".format, st.sampled_from(["t", "t*", "u"])),
    st.builds(
        lambda pattern, text: f"set-rules {pattern} {len(text)}\r\n{text}",
        st.sampled_from(["t", "t*", "u"]),
        st.sampled_from(TEXTS),
    ),
)


class Twins(RuleBasedStateMachine):
    """The engine with users, and the one without."""

    def __init__(self) -> None:
        super().__init__()
        self.with_users, self.without = World(), World()
        self.users = {name: User(name.encode()) for name in ("ann", "bob")}
        self.rights = {name: Rights({}) for name in self.users}
        self.known = {name: Known() for name in CLIENTS}
        self.hears = {"a1"}
        self.last_id = 0
        for world in (self.with_users, self.without):
            world.connect(ROOT)
        for name, user in CLIENTS.items():
            self.with_users.connect(name, self.users[user])
            self.without.connect(name)
            self.known[name].watched = ["default"]
        self.with_users.send("a1", b"list-extensions\r\n")
        self.with_users.output("a1")
        self.hide()

    def both(self, name: str, line: str) -> None:
        for world in (self.with_users, self.without):
            world.send(name, f"{line}\r\n".encode())

    def is_waiting(self, name: str) -> bool:
        return bool(self.without.connections[name].session.waiting)

    def alias(self, name: str, tube: str, right: str) -> str:
        """What a tube is called in the engine without users."""
        rights, known = self.rights[CLIENTS[name]], self.known[name]
        seen = rights.is_seen(known, tube) if right == "any" else rights.has(right, tube)
        return tube if seen else f"{tube}{HIDDEN}{name}"

    def tell(self, name: str, line: str) -> str:
        """What the engine without users answers, with the names that the client knows."""
        self.without.send(name, f"{line}\r\n".encode())
        return self.heard(name)

    def heard(self, name: str) -> str:
        return self.without.output(name).decode().replace(f"{HIDDEN}{name}", "")

    def ask(self, line: str) -> str:
        return self.tell(ROOT, line)

    def hide(self) -> None:
        """Lets sessions use and watch, in the engine without users, what their users may now."""
        for name, known in self.known.items():
            used = self.alias(name, known.used, "any")
            self.without.send(name, f"use {used}\r\n".encode())
            session = self.without.connections[name]
            listed = self.without_list(name)
            assert not session.session.waiting
            for tube in known.watched:
                wanted = self.alias(name, tube, "reserve")
                other = tube if wanted != tube else f"{tube}{HIDDEN}{name}"
                if wanted not in listed:
                    self.without.send(name, f"watch {wanted}\r\nignore {other}\r\n".encode())
            self.without.output(name)

    def without_list(self, name: str) -> list[str]:
        self.without.send(name, b"list-tubes-watched\r\n")
        return [line[2:] for line in self.without.output(name).decode().splitlines() if line.startswith("- ")]

    def look(self, name: str) -> Known:
        """What decides about the next command of a session."""
        known = self.known[name]
        known.jobs = {}
        tubes = [line[2:] for line in self.ask("list-tubes").splitlines() if line.startswith("- ")]
        for tube in tubes:
            for state in ("ready", "reserved", "delayed", "buried"):
                for line in self.ask(f"list-jobs {tube} {state} 99").splitlines():
                    if line.startswith("JOB "):
                        known.jobs[int(line.split()[1])] = (tube, state)
        known.splits = [tube for tube in ("t", "t2") if self.splits(f"{tube};g")]
        return known

    def splits(self, tube: str) -> bool:
        return SPLIT in self.ask(f"get-rules {tube}")

    @rule(name=st.sampled_from([*CLIENTS]), text=commands)
    def say(self, name: str, text: str) -> None:
        if self.is_waiting(name):
            return
        known = self.look(name)
        last_id = max(known.jobs, default=0)
        line = text.format(*[max(last_id - each, 1) for each in range(5)])
        head, _, body = line.partition("\r\n")
        verb, *words = head.split()
        self.follow_split(name)
        lacking = self.rights[CLIENTS[name]].missing(known, verb, *words, body)
        self.with_users.send(name, f"{line}\r\n".encode())
        if lacking:
            got = self.with_users.output(name).decode()
            assert got == refusal(verb, lacking, hears=name in self.hears)
            return
        if verb == "delete-many":
            self.delete_many(name, [int(word) for word in words])
            return
        if verb == "use":
            known.used = words[0]
            line = f"use {self.alias(name, words[0], 'any')}"
        if verb in {"watch", "ignore"}:
            line = f"{verb} {self.alias(name, words[0], 'reserve')}"
        self.without.send(name, f"{line}\r\n".encode())
        if verb in {"watch", "ignore"}:
            wanted = self.without.output(name).decode()
            assert self.with_users.output(name).decode() == wanted
            known.watched = [tube.partition(HIDDEN)[0] for tube in self.without_list(name)]

    def follow_split(self, name: str) -> None:
        """Rules may have made of the tube in use one of a group, or the other way round."""
        known = self.known[name]
        if ";" in known.used:
            self.tell(name, f"use {self.alias(name, known.used, 'any')}")

    def delete_many(self, name: str, wanted: list[int]) -> None:
        """The jobs of which one may not be deleted are named as if they were not there."""
        rights, known = self.rights[CLIENTS[name]], self.known[name]
        may = {id for id in wanted if id in known.jobs and rights.missing(known, "delete", str(id)) is None}
        count, lost = 0, []
        for id in wanted:
            done = id in may and self.tell(name, f"delete {id}") == "DELETED\r\n"
            count += done
            lost += [] if done else [str(id)]
        assert self.with_users.output(name).decode() == " ".join(["DELETED", str(count), *lost]) + "\r\n"

    @rule(user=st.sampled_from(["ann", "bob"]), patterns=granted)
    def grant(self, user: str, patterns: Patterns) -> None:
        """The file of users is read again."""
        for name in CLIENTS:
            if self.is_waiting(name):
                self.both(name, "cancel-reserve")
        self.users[user].grant(Grants(patterns), admin=False, stats=False)
        self.rights[user] = Rights(patterns)
        self.with_users.engine.rights_changed()
        self.with_users.jump(0)
        self.compare()
        for name in CLIENTS:
            self.look(name)
        self.hide()

    @rule(ms=st.sampled_from([1, 999, 1000, 2000, 9000]))
    def advance(self, ms: int) -> None:
        for world in (self.with_users, self.without):
            world.advance(ms * 1_000_000)

    @rule(name=st.sampled_from([*CLIENTS]), verb=st.sampled_from(["list-tubes", "stats-tubes", "list-rules"]))
    def list_all(self, name: str, verb: str) -> None:
        """A list has what there is a right to, of what there is."""
        if self.is_waiting(name):
            return
        self.compare()
        rights = self.rights[CLIENTS[name]]
        self.with_users.send(name, f"{verb}\r\n".encode())
        got = items(self.with_users.output(name).decode())
        wanted = []
        for item in items(self.ask(verb)):
            tube = item.split("\n")[0].split(": ")[-1].strip('"')
            is_met = any(meet(tube, each) for some in rights.patterns.values() for each in some)
            if HIDDEN not in tube and (is_met if verb == "list-rules" else rights.has("any", tube)):
                wanted.append(item)
        assert sorted(got) == sorted(wanted)

    @invariant()
    def compare(self) -> None:
        """Everybody has heard the same."""
        for name in CLIENTS:
            got, wanted = self.with_users.output(name).decode(), self.heard(name)
            assert SIZE.sub("OK", got) == SIZE.sub("OK", wanted)
        self.with_users.check()
        self.without.check()

    def teardown(self) -> None:
        """Both have the same jobs."""
        for tube in TUBES:
            for state in ("ready", "reserved", "delayed", "buried"):
                self.both(ROOT, f"list-jobs {tube} {state} 99 bodies=9")
        assert self.with_users.output(ROOT) == self.without.output(ROOT)


def items(text: str) -> list[str]:
    """The items of a list in YAML."""
    return text.strip().split("\n- ")[1:]


def meet(one: str, other: str) -> bool:
    """Whether two patterns fit some tube both."""
    if one.endswith("*") and other.endswith("*"):
        return one[:-1].startswith(other[:-1]) or other[:-1].startswith(one[:-1])
    return fits_name(one, other) or fits_name(other, one)


def fits_name(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def test_users_get_what_the_table_gives() -> None:
    machine = hypothesis.seed(SEEDS[0])(Twins)
    how = settings(max_examples=len(SEEDS), stateful_step_count=STEPS, deadline=None)
    run_state_machine_as_test(machine, settings=settings(how, suppress_health_check=list(HealthCheck)))
