"""What a server has promised: for each job what was acknowledged, and what was asked and never answered.

A hermit is the only client of its tube, so it knows what each job must be: its state, its counters, its place among the
buried. Where a crash swallowed an answer, either outcome is right, but nothing else. Each hermit asks for at most one
thing a job at a time, so there are never more than two.
"""

import copy
from dataclasses import dataclass, field

READY, DELAYED, BURIED, RESERVED = "ready", "delayed", "buried", "reserved"


@dataclass
class Promised:
    """One job as its client knows it."""

    body: bytes = field(repr=False)
    pri: int
    state: str
    delay_s: int
    id: int = 0
    """0: the put was not answered."""

    releases: int = 0
    buries: int = 0
    kicks: int = 0
    reserves: int = 0

    @property
    def durable_state(self) -> str:
        """What a restart makes of it."""
        return READY if self.state == RESERVED else self.state

    def agrees(self, found: dict[str, str]) -> bool:
        """Whether `stats-job` says of it what was promised."""
        promised = {
            "state": self.durable_state,
            "pri": str(self.pri),
            "delay": str(self.delay_s),
            "ttr": "1000",
            "timeouts": "0",
            "releases": str(self.releases),
            "buries": str(self.buries),
            "kicks": str(self.kicks),
        }
        in_time = int(found["time-left"]) <= self.delay_s and (self.state != DELAYED or int(found["time-left"]) > 0)
        # One more reservation may have been made and not answered; it is told when compaction moves the job.
        reserves_in_time = int(found["reserves"]) <= self.reserves + 1
        return in_time and reserves_in_time and promised.items() <= found.items()


@dataclass
class Ledger:
    """All jobs of a hermit."""

    jobs: dict[int, Promised] = field(default_factory=dict)
    """By id: those whose put was answered, and whose delete was not."""

    deleted: set[int] = field(default_factory=set)
    """Ids whose delete was answered: they never return."""

    asked: dict[int, Promised | None] = field(default_factory=dict)
    """By id: what a job becomes if the request without an answer was heard; None: it is deleted."""

    puts: list[Promised] = field(default_factory=list)
    """Jobs that were put without an answer, in the order in which they were sent."""

    buried: list[int] = field(default_factory=list)
    """Buried jobs, oldest first."""

    def in_state(self, *states: str) -> list[Promised]:
        """The jobs of some states that nothing is asked for."""
        return [job for id, job in self.jobs.items() if job.state in states and id not in self.asked]

    def ask(self, job: Promised, **changes: int | str) -> None:
        """Note what a request will make of a job."""
        wanted = copy.copy(job)
        for name, value in changes.items():
            setattr(wanted, name, value)
        self.asked[job.id] = wanted

    def ask_delete(self, job: Promised) -> None:
        self.asked[job.id] = None

    def acknowledge_put(self, id: int) -> None:
        """Take the oldest put as answered."""
        job = self.puts.pop(0)
        job.id = id
        assert id not in self.jobs, f"the id {id} was given twice"
        assert id not in self.deleted, f"the id {id} was given again"
        self.jobs[id] = job

    def acknowledge(self, id: int) -> None:
        """Take what was asked for a job as answered."""
        self.settle(id, self.asked.pop(id))

    def settle(self, id: int, job: Promised | None) -> None:
        """Make a job what it is now known to be."""
        if id in self.buried and (job is None or job.state != BURIED):
            self.buried.remove(id)
        if job is None:
            del self.jobs[id]
            self.deleted.add(id)
            return
        if job.state == BURIED and id not in self.buried:
            self.buried.append(id)
        self.jobs[id] = job

    def restart(self) -> None:
        """Take reservations as lost."""
        for job in self.jobs.values():
            job.state = job.durable_state


@dataclass
class Market:
    """The jobs of a tube that several clients share: who puts is not who deletes."""

    put: dict[int, bytes] = field(default_factory=dict)
    """Ids whose put was answered."""

    offered: set[bytes] = field(default_factory=set)
    """Bodies that were sent in a put, answered or not."""

    delete_asked: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    """Ids whose delete was answered."""
