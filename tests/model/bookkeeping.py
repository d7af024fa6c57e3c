"""The plainer half of the reference model: what it keeps, tubes, and the commands that only look."""

# ruff: noqa: ARG002, ARG005 - every command gets the session, whether it needs it or not

from collections import Counter, defaultdict
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from beanpole.shard_ids import end_id, first_id

SECOND = 1_000_000_000
NEVER = 1 << 100
STATES = ("ready", "reserved", "delayed", "buried")


class Thing(SimpleNamespace):  # noqa: PLW1641 - nobody puts it into a set
    """A session or a job: fields, and no behaviour. Two of them are never the same, whatever they hold."""

    __eq__ = object.__eq__


def remove(names: list[str], name: str) -> None:
    """Takes a name out of a list as beanstalkd does: the last one moves into the hole."""
    if name in names:
        names[names.index(name)] = names[-1]
        names.pop()


def listed(text: str) -> str:
    """A reply with a body."""
    return f"OK {len(text)}\r\n{text}"


def seconds(duration: int) -> str:
    """A duration with up to three decimals."""
    return f"{duration // SECOND}.{duration % SECOND // 1_000_000:03}".rstrip("0").rstrip(".")


class Bookkeeping:
    """Jobs by id, sessions in the order in which they began to wait, tubes in the order of list-tubes."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what another part of the model has
            ...

    def __init__(self, now: int) -> None:
        self.now, self.draining, self.last_id = now, False, 0
        self.shard: tuple[int, ...] = ()
        self.first_session = 0
        self.lead = 0  # how far the wall clock is ahead
        self.jobs: dict[int, Thing] = {}
        self.buried: list[Thing] = []
        self.sessions: list[Thing] = []
        self.tubes, self.tubes_max = ["default"], NEVER
        self.pauses: dict[str, tuple[int, int]] = {}  # tube: (seconds, until when)
        self.counts: Counter[str] = Counter()
        self.tube_counts: dict[str, Counter[str]] = defaultdict(Counter)

    def set_shard(self, shard: tuple[int, ...], left: int) -> None:
        """Jobs and sessions are numbered from the first number on; of two so many ids of the first are left."""
        self.shard = shard
        if shard:
            self.first_session = first_id(shard[0])
            self.last_id = (end_id(shard[0]) - left if len(shard) > 1 else first_id(shard[0])) - 1

    def go_on_in_next_range(self) -> None:
        """When the ids of a number of the shard are used up, those of the next one begin."""
        for number, following in pairwise(self.shard):
            if end_id(number) <= self.last_id + 1 < first_id(following):
                self.last_id = first_id(following) - 1

    @property
    def wall(self) -> int:
        """The wall clock."""
        return self.now + self.lead

    def connect(self) -> Thing:
        begin = {"todo": [], "out": "", "waiting": False, "half_closed": False, "producer": False, "worker": False}
        begin |= {"number": self.first_session + self.counts["total-connections"], "heard": self.now}
        begin |= {"name": "", "opened": self.now, "verb": "none", "token": None, "quitting": False}
        begin |= {"wants": "job", "told": None, "told_until": NEVER}
        self.sessions.append(Thing(used="default", watched=["default"], until=NEVER, **begin))
        self.counts["total-connections"] += 1
        return self.sessions[-1]

    def is_one_too_many(self, tube: str) -> bool:
        """Whether there would be more tubes than there may be with this one."""
        return tube not in self.tubes and len(self.tubes) >= self.tubes_max

    def open_tube(self, tube: str) -> str:
        self.tubes += [tube] if tube not in self.tubes else []
        return tube

    def forget_tubes(self) -> None:
        needed = {job.tube for job in self.jobs.values()} | {session.used for session in self.sessions} | {"default"}
        needed |= {tube for session in self.sessions for tube in session.watched}
        for tube in [tube for tube in self.tubes if tube not in needed]:
            remove(self.tubes, tube)
            self.pauses.pop(tube, None)
            self.tube_counts.pop(tube, None)

    def use(self, session: Thing, tube: str) -> str:
        if self.is_one_too_many(tube):
            return "OUT_OF_MEMORY"
        session.used = self.open_tube(tube)
        return f"USING {tube}"

    def watch(self, session: Thing, tube: str) -> str:
        if self.is_one_too_many(tube):
            return "OUT_OF_MEMORY"
        session.watched += [self.open_tube(tube)] if tube not in session.watched else []
        return f"WATCHING {len(session.watched)}"

    def ignore(self, session: Thing, tube: str) -> str:
        if session.watched == [tube]:
            return "NOT_IGNORED"
        remove(session.watched, tube)
        return f"WATCHING {len(session.watched)}"

    def first(self, session: Thing, state: str) -> list[Thing]:
        """The jobs of the used tube in a state, in the order in which they come out."""
        jobs = self.buried if state == "buried" else [job for job in self.jobs.values() if job.state == state]
        order = {"ready": lambda job: (job.pri, job.id), "delayed": lambda job: (job.until, job.id)}
        return sorted((job for job in jobs if job.tube == session.used), key=order.get(state, lambda job: 0))

    def best(self, tubes: list[str]) -> Thing | None:
        """The job that comes out next when these tubes are watched."""
        ready = [job for tube in set(tubes) if not self.is_closed(tube) for job in self.ready_in(tube)]
        return min(ready, key=lambda job: (job.pri, job.id), default=None)

    def ready_in(self, tube: str) -> list[Thing]:
        """The jobs of a tube that may be reserved."""
        ready = [job for job in self.jobs.values() if job.state == "ready" and job.tube == tube]
        return [job for job in ready if not self.is_over(job)]

    def is_closed(self, tube: str) -> bool:
        """Whether a tube gives no job to `reserve`."""
        return tube in self.pauses

    def next_deadline(self) -> int:
        """When the next thing is due; before that, nothing happens by itself."""
        waiting = [session for session in self.sessions if session.waiting]
        moments = [session.until for session in waiting] + [until for _, until in self.pauses.values()]
        moments += [session.told_until for session in self.sessions if session.told]
        moments += [job.until - SECOND if job.holder in waiting else self.over_at(job) for job in self.jobs.values()]
        moments += [job.over for job in self.jobs.values() if job.state in {"ready", "delayed"}]
        return min(moments, default=NEVER)

    def peek(self, session: Thing, job: Thing) -> str:
        return f"FOUND {job.id} {len(job.body)}\r\n{job.body}"

    def peek_ready(self, session: Thing, state: str = "ready") -> str:
        return next((self.peek(session, job) for job in self.first(session, state)), "NOT_FOUND")

    def peek_delayed(self, session: Thing) -> str:
        return self.peek_ready(session, "delayed")

    def peek_buried(self, session: Thing) -> str:
        return self.peek_ready(session, "buried")

    def list_tube_used(self, session: Thing) -> str:
        return f"USING {session.used}"

    def list_tubes(self, session: Thing) -> str:
        return listed("---\n" + "".join(f"- {tube}\n" for tube in self.tubes))

    def list_tubes_watched(self, session: Thing) -> str:
        return listed("---\n" + "".join(f"- {tube}\n" for tube in session.watched))

    def count_release(self, job: Thing) -> None:
        """Counts that a job comes back, unless it is taken away as it does."""
        if not job.superseded and job.over > self.now:
            job.releases += 1
            self.tube_counts[job.tube]["jobs-released"] += 1

    def count_bury(self, job: Thing) -> None:
        job.buries += 1
        self.tube_counts[job.tube]["jobs-buried"] += 1

    def count_states(self, jobs: list[Thing]) -> dict[str, int]:
        counts = {f"current-jobs-{state}": sum(job.state == state for job in jobs) for state in STATES}
        return {"current-jobs-urgent": sum(job.state == "ready" and job.pri < 1024 for job in jobs)} | counts

    def stats_job(self, session: Thing, job: Thing) -> str:
        left = (job.until - self.now) // SECOND if job.state in ("reserved", "delayed") else 0
        age = (self.now - job.created) // SECOND
        return listed(
            f"---\nid: {job.id}\ntube: {job.tube}\nstate: {job.state}\npri: {job.pri}\nage: {age}\ndelay: {job.delay}\n"
            f"ttr: {job.ttr}\ntime-left: {left}\nfile: 0\nreserves: {job.reserves}\ntimeouts: {job.timeouts}\n"
            f"releases: {job.releases}\nburies: {job.buries}\nkicks: {job.kicks}\n"
        )

    def stats_tube(self, session: Thing, tube: str) -> str:
        if tube not in self.tubes:
            return "NOT_FOUND"
        counts: dict[str, Any] = {"name": tube}
        counts |= self.count_states([job for job in self.jobs.values() if job.tube == tube])
        counts["total-jobs"] = self.tube_counts[tube]["total-jobs"]
        counts["current-using"] = sum(other.used == tube for other in self.sessions)
        counts["current-watching"] = sum(tube in other.watched for other in self.sessions)
        counts["current-waiting"] = sum(other.waiting and tube in other.watched for other in self.sessions)
        counts |= {key: self.tube_counts[tube][key] for key in ("cmd-delete", "cmd-pause-tube")}
        seconds, until = self.pauses.get(tube, (0, self.now))
        counts |= {"pause": seconds, "pause-time-left": (until - self.now) // SECOND}
        return listed("---\n" + "".join(f"{key}: {value}\n" for key, value in counts.items()))

    def stats(self, session: Thing) -> str:
        """Only what the model knows, in an order of its own: the test compares key by key."""
        counts: dict[str, Any] = (
            dict(self.counts) | self.count_states(list(self.jobs.values())) | {"current-tubes": len(self.tubes)}
        )
        counts["current-connections"] = len(self.sessions)
        counts["current-producers"] = sum(other.producer for other in self.sessions)
        counts["current-workers"] = sum(other.worker for other in self.sessions)
        counts["current-waiting"] = sum(other.waiting for other in self.sessions)
        counts["draining"] = str(self.draining).lower()
        counts |= {"sessions-lost": len(self.lost), "sessions-resumed": self.resumed_count}
        counts |= self.count_schedules()
        return listed("---\n" + "".join(f"{key}: {value}\n" for key, value in counts.items()))
