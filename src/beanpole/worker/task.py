"""What a handler is given, and what can come of it."""

import enum
from dataclasses import dataclass
from typing import TypeVar

from beanpole.client.job import Job
from beanpole.client.stats import StatsJob

B = TypeVar("B")


class Outcome(enum.StrEnum):
    """What came of an attempt."""

    DONE = "done"
    """The handler returned, and the job is deleted."""

    RETRIED = "retried"
    """The handler failed; the job is ready again after a delay."""

    BURIED = "buried"
    """The handler failed, and there is no further attempt."""

    RELEASED = "released"
    """The worker stops; the job is ready for another one."""

    LOST = "lost"
    """The server has taken the job back: the connection broke, or the TTR ran out. It will come again."""


@dataclass(slots=True)
class Counters:
    """What a worker has done since it was made; `running` and `connections` are of this moment."""

    reserved: int = 0
    """Jobs that came."""
    done: int = 0
    failed: int = 0
    """Handlers that raised, or took too long; each is retried or buried."""
    retried: int = 0
    buried: int = 0
    """With bodies that could not be decoded, and jobs that used up their attempts without an end."""
    released: int = 0
    lost: int = 0
    running: int = 0
    """Handlers that run, with those that run on in a thread after their timeout."""
    connections: int = 0
    """Connections to the server that work."""

    def count(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        setattr(self, outcome.value, getattr(self, outcome.value) + 1)


class Task(Job[B]):
    """A job as its handler sees it: its id and body, and which attempt this is."""

    __slots__ = ("attempt", "max_attempts", "stats")

    def __init__(self, id: int, body: B, stats: StatsJob, attempt: int, max_attempts: int | None) -> None:
        super().__init__(id, body)
        self.stats = stats
        """What ``stats-job`` said when the job was reserved: priority, age, TTR and so on."""
        self.attempt = attempt
        """Which attempt this is, from 1 on and never above `max_attempts`."""
        self.max_attempts = max_attempts
        """The number of the last attempt; None: there is no last one."""

    @property
    def tube(self) -> str:
        """The tube that the job was in."""
        return self.stats.tube

    def __repr__(self) -> str:
        return f"beanpole.Task(id={self.id!r}, body={self.body!r}, tube={self.tube!r}, attempt={self.attempt!r})"
