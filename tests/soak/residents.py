"""Clients that use every command and every rule, each in tubes of its own, and know by the model what must be true.

What a resident is told must be what its model says. When the server has been killed, some of the commands that it has
sent last were not answered: those up to one of them were heard, and none behind it. Every outcome is tried with a copy
of the model, and one of them must be what the server then shows of all its jobs and rules.
"""

import copy
import re
import time
from typing import Any

from tests.durability.load import Worker
from tests.e2e.process import Client
from tests.model.bookkeeping import Thing
from tests.model.conversation import bytes_of
from tests.model.many import RESTING
from tests.model.model import Model
from tests.soak.clock import Clock
from tests.soak.replies import replies, replies_in

BATCH_MAX = 12
JOBS_MAX = 40
PATIENCE_S = 20.0
UNKNOWN_ID = 1 << 40
"""Above: ids of jobs that were put without an answer, and are gone."""

KEYS = ("k", "l")
DELAYS_S = (0, 0, 0, 1, 30)
TTRS_S = (1, 60, 60)
RULES = (
    "attempts: 2\n",
    "attempts: 3\ndead: {grave}\nbackoff: 2 factor 3 max 20\n",
    "attempts: 1\ndead: {grave}\n",
    "attempts: 2\ndead: {grave}\nconcurrency: 2\n",
    "backoff: 1\n",
    "expire: 5\n",
    "attempts: 2\ndead: {grave}\nexpire: 5 dead\n",
    "attempts: 2\nunique: body\n",
    "unique: body until reserve\n",
    "unique: body replace\n",
    "jobs-max: 5\n",
    "bytes-max: 300\n",
    "jobs-max: 20\nconcurrency: 1\n",
    "attempts: 2\nrate: 2/s burst 3\n",
    "rate: 60/m burst 9\nconcurrency: 3\n",
    "",
)
"""In the order in which a server shows them."""

OF_ALL: list[tuple[Any, ...]] = [
    *[("stats",), ("list-tubes",), ("list-extensions",), ("stats-tubes", {"limit": 3})],
    *[("list-rules", {}), ("list-sessions", {}), ("stats-histograms", {"limit": 3})],
]
"""What is about everybody: nobody's model knows the answer."""

OWN = re.compile(rb'(?m)(?<="session": )\d+|(?<=^file: )\d+|^- elsewhere: .*\n')
"""What no model of one resident knows: the numbers of sessions and of segments, and who waits for other tubes."""

LATER = re.compile(rb'(?m)(?<= reserves=)\d+|^place: \d+|(?<="ids": )\[.*?\]|(?<="attempts": )\d+')
"""What the account takes over from the server: lost reservations, and the order of jobs that died at the same time."""

DIED_AFTER = re.compile(rb'(?<="attempts": )\d+')


class Account:
    """What a resident was told of its jobs, as a model that was told the same."""

    def __init__(self, home: str, clock: Clock) -> None:
        self.home = home
        self.clock = clock
        self.tubes = [f"{home}-{name}" for name in ("a", "b", "grave")]
        self.model = Model(clock.now_ns)
        self.session: Thing = self.model.connect()
        self.known = [0]
        """Ids that were its jobs'."""

        self.unanswered: list[tuple[Any, ...]] = []
        """The commands that were sent and not answered."""

    def answered(self, command: tuple[Any, ...], reply: bytes) -> bytes:
        """Take the oldest of these as answered; return what the model answers."""
        if reply.startswith(b"INSERTED ") and (id := int(reply.split()[1])) not in self.model.jobs:
            assert id not in self.known, f"the id {id} was given again"
            self.model.last_id = id - 1
            self.known.append(id)
        self.unanswered.pop(0)
        return self.run(command)

    def run(self, command: tuple[Any, ...]) -> bytes:
        """Return what the model answers."""
        self.session.todo.append(command)
        self.model.run(self.session)
        found, self.session.out = replies_in(self.session.out), ""
        return OWN.sub(b"", b"".join(found))

    def audit(self, client: Client, *, restarted: bool) -> None:
        """Compare what is there with what must be. Raises AssertionError."""
        shown: list[tuple[Any, ...]] = [
            ("list-jobs", tube, state, 1000, {"bodies": 1 << 16}) for tube in self.tubes for state in RESTING
        ]
        shown += [command for tube in self.tubes for command in (("get-rules", tube), ("explain-tube", tube))]
        shown += [("find-job", tube, key) for tube in self.tubes for key in KEYS]
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            found = list(zip(shown, asked(client, shown), strict=True))
            jobs = [job for _, reply in found for job in jobs_in(reply)]
            explained = [("explain", job.id) for job in jobs]
            found += zip(explained, asked(client, explained), strict=True)
            outcomes = [self.outcome(heard, jobs, restarted=restarted) for heard in range(len(self.unanswered) + 1)]
            wrong = [outcome.differing(found, jobs) for outcome in outcomes]
            if "" in wrong:
                break
            if time.monotonic() > give_up_at:
                raise AssertionError(
                    f"{self.home}: without an answer {self.unanswered}\n" + "\n or ".join(each[:1000] for each in wrong)
                )
        # A reservation that no rule counts need not be in the log: of what is right, take what had the fewest of these.
        right = min((o for o, why in zip(outcomes, wrong, strict=True) if not why), key=lambda o: o.more_reserves(jobs))
        self.model, self.session, self.unanswered = right.model, right.session, []
        self.known += [job.id for job in jobs if job.id not in self.known]
        self.align(client, jobs)

    def outcome(self, heard: int, jobs: list[Thing], *, restarted: bool) -> "Account":
        """Return what must be there when so many of the commands without an answer were heard."""
        account = copy.copy(self)
        account.model, account.session = copy.deepcopy((self.model, self.session))
        ids = {job.body: job.id for job in jobs if job.id not in self.model.jobs}
        for number, command in enumerate(self.unanswered[:heard]):
            if command[0] in {"put", "put-job"}:
                body = command[-1 if command[0] == "put" else 1]
                account.model.last_id = ids.get(body, UNKNOWN_ID + number) - 1
            if command not in OF_ALL:
                account.run(command)
        if restarted:
            account.model.now = self.clock.now_ns
            forget_all_but_the_log(account.model)
            account.session = account.model.connect()
        account.model.tick(self.clock.now_ns)
        return account

    def differing(self, found: list[tuple[tuple[Any, ...], bytes]], jobs: list[Thing]) -> str:
        """Return what a server shows that is not as it must be."""
        for command, got in found:
            shows, says = (
                {line[:300] for line in LATER.sub(b"", each).split(b"\n")} for each in (got, self.run(command))
            )
            if shows != says:
                return f"{command} shows {shows - says}, the model {says - shows}"
        unknown = [job.id for job in jobs if job.reserves > self.model.jobs[job.id].reserves]
        return f"{unknown} were reserved more often than anybody asked for" if unknown else ""

    def more_reserves(self, jobs: list[Thing]) -> int:
        """Return how many more reservations there were than are shown."""
        return sum(int(self.model.jobs[job.id].reserves - job.reserves) for job in jobs)

    def states(self) -> list[str]:
        return [job.state for job in self.model.jobs.values()]

    def align(self, client: Client, jobs: list[Thing]) -> None:
        """Take over what the model can't know: in which order jobs died at the same time, and lost reservations.

        Where no rule counts attempts, a job that died had as many as it had reservations.
        """
        listed = [("list-jobs", tube, "buried", 1000, {"order": "next"}) for tube in self.tubes]
        order = [job.id for reply in asked(client, listed) for job in jobs_in(reply)]
        self.model.buried.sort(key=lambda job: order.index(job.id))
        for job, explained in zip(jobs, asked(client, [("explain", job.id) for job in jobs]), strict=True):
            mine = self.model.jobs[job.id]
            mine.reserves = job.reserves
            if mine.died and (count := DIED_AFTER.search(explained)):
                tube, when, _, why = mine.died
                mine.died = (tube, when, int(count[0]), why)


class Resident(Worker):
    """One client, on a connection of its own; its account goes on when the server is started again."""

    def __init__(self, client: Client, seed: str, account: Account) -> None:
        super().__init__(client, seed)
        self.account = account
        self.same = ""
        """A body that more than one job may have; empty: it was sent in this batch."""

    def begin(self) -> None:
        """Has no tube but its own."""
        if "default" in self.account.session.watched:
            watches = [("watch", tube) for tube in self.account.tubes]
            self.ask([("use", self.account.tubes[0]), *watches, ("ignore", "default")])

    def step(self) -> None:
        """Sends some commands at once, and reads the answers."""
        self.same = "same"
        self.ask([self.command() for _ in range(self.random.randint(1, BATCH_MAX))])

    def ask(self, commands: list[tuple[Any, ...]]) -> None:
        """Send commands; every answer must be the model's."""
        self.account.unanswered = list(commands)
        self.client.send(b"".join(bytes_of(*command) for command in commands))
        for command in commands:
            [reply] = replies(self.client, 1)
            if command in OF_ALL:
                self.account.unanswered.pop(0)
            else:
                wanted = self.account.answered(command, reply)
                assert OWN.sub(b"", reply) == wanted, f"{self.name}: {command} got {reply!r}, the model says {wanted!r}"
            self.acknowledged_count += 1

    # --- what it asks for ---

    def pick(self, *states: str) -> Any:  # noqa: ANN401 - the model's fields are of any type
        """Return the id of a job in some state, or of any that was its own."""
        jobs = [job.id for job in self.account.model.jobs.values() if job.state in states]
        return self.random.choice(jobs if jobs and self.random.random() < 0.9 else self.account.known)

    def command(self) -> tuple[Any, ...]:
        """Return what is asked for next."""
        rng = self.random
        if rng.random() < 0.25 and len(self.account.model.jobs) < JOBS_MAX:
            return self.put()
        if rng.random() < 0.3:
            return self.held()
        tube, state, pri = rng.choice(self.account.tubes), rng.choice(RESTING), rng.randint(0, 2000)
        rules = rng.choice(RULES).format(grave=self.account.tubes[2])
        return rng.choice(
            (
                *[("reserve-with-timeout", 0), ("reserve-many", rng.randint(1, 4), 0)] * 4,
                ("reserve-job", self.pick("ready", "delayed", "buried")),
                ("peek", self.pick(*RESTING, "reserved")),
                (rng.choice(("peek-ready", "peek-delayed", "peek-buried", "list-tube-used", "list-tubes-watched")),),
                ("stats-job", self.pick(*RESTING, "reserved")),
                ("kick", rng.randint(1, 3)),
                ("kick-job", self.pick("delayed", "buried")),
                ("delete", self.pick(*RESTING)),
                ("use", tube),
                ("watch", tube),
                ("ignore", tube),
                ("change-job", self.pick(*RESTING), {rng.choice(("pri", "ttr")): pri, "tube": tube}),
                ("change-job", self.pick(*RESTING), {rng.choice(("delay", "expire")): rng.choice((0, 3, 40))}),
                ("change-body", self.pick(*RESTING), self.text()),
                ("delete-many", *(self.pick(*RESTING) for _ in range(2))),
                ("find-job", tube, rng.choice(KEYS)),
                ("move-jobs", tube, state, rng.randint(1, 3), {"to": rng.choice(self.account.tubes)}),
                ("move-jobs", tube, state, rng.randint(1, 3), {}),
                ("list-jobs", tube, state, rng.randint(1, 9), {"bodies": 10}),
                ("explain", self.pick(*RESTING, "reserved")),
                ("explain-tube", tube),
                ("get-rules", tube),
                ("set-rules", rng.choice((tube, f"{self.account.home}-*")), rules),
                rng.choice((("drop-rules", tube), ("clear-tube", tube, state), ("pause-tube", tube, pri % 2))),
                ("name-session", f"{self.name}-{pri}"),
                rng.choice(OF_ALL),
            )
        )  # fmt: skip

    def text(self) -> str:
        """Return a body, now and then one that another job has, but only once in a batch."""
        self.serial += 1
        if self.same and self.random.random() < 0.2:
            self.same, text = "", self.same
            return text
        return f"{self.name}/{self.serial} " + "x" * self.random.choice((0, 0, 20, 200, 3000))

    def put(self) -> tuple[Any, ...]:
        """Return a put."""
        rng = self.random
        if rng.random() < 0.4:
            return ("put", rng.randint(0, 2000), rng.choice(DELAYS_S), rng.choice(TTRS_S), self.text())
        said: dict[str, Any] = {
            "tube": rng.choice(self.account.tubes),
            "pri": rng.randint(0, 2000),
            "delay": rng.choice(DELAYS_S),
            "ttr": rng.choice(TTRS_S),
            "key": rng.choice(KEYS),
            "taken": rng.choice(("keep", "replace")),
            "until": rng.choice(("delete", "reserve")),
            "expire": rng.choice((2, 30)),
        }
        options = {name: value for name, value in said.items() if rng.random() < 0.5}
        if "key" not in options:
            options = {name: value for name, value in options.items() if name not in ("taken", "until")}
        return ("put-job", self.text(), options)

    def held(self) -> tuple[Any, ...]:
        """Return something that is done to a job that it holds."""
        rng, id, pri = self.random, self.pick("reserved"), self.random.randint(0, 2000)
        return rng.choice(
            (
                *[("delete", id), ("release", id, pri, rng.choice(DELAYS_S))] * 3,
                ("bury", id, pri),
                ("touch", id),
                ("snooze-job", id, rng.choice((0, 0.5, 5)), {"pri": pri}),
                ("fail-job", id, "it failed", rng.choice(({}, {}, {"delay": 3}, {"dead": "now"}, {"pri": pri}))),
                ("change-job", id, {"ttr": 2}),
                ("change-job", id, {"expire": 4}),
                ("delete-many", id, self.pick("reserved")),
                ("touch-many", id, self.pick("reserved")),
                ("cancel-job", id),
            )
        )


def asked(client: Client, commands: list[tuple[Any, ...]]) -> list[bytes]:
    """Return what a server answers."""
    client.send(b"".join(bytes_of(*each) for each in commands))
    return [OWN.sub(b"", each) for each in replies(client, len(commands))]


def jobs_in(reply: bytes) -> list[Thing]:
    """Return the jobs of a list: their ids, bodies, and how often they were reserved."""
    found, rest = [], reply.partition(b"\r\n")[2]
    while rest.startswith(b"JOB "):
        line, _, rest = rest.partition(b"\r\n")
        _, id, size, *_ = line.split()
        reserves = int(line.split(b" reserves=")[1].split()[0])
        found.append(Thing(id=int(id), body=rest[: int(size)].decode("latin-1"), reserves=reserves))
        rest = rest[int(size) + 2 :]
    return found


def forget_all_but_the_log(model: Model) -> None:
    """Do to the model what a crash does to a server: no session is there any more, and no statistics.

    A job whose attempt was not counted as it began, for the rules were another tube's or other ones, is just ready.
    """
    for job in [job for job in model.jobs.values() if job.state == "reserved" and not job.under_way]:
        job.state, job.holder = "ready", None
        model.move(job, "ready")
    for session in list(model.sessions):
        session.name = ""  # the log knows that an attempt was under way, but not whose
        model.quit(session)
    model.counts.clear()
    model.tube_counts.clear()
    model.forget_tubes()
    model.buckets.clear()
    model.rules_set_at = dict.fromkeys(model.rule_texts, model.now)
    for tube in model.tubes:
        model.begin_bucket(tube, model.now)
