"""The argument of a handler, and the outcomes of an attempt."""

import enum
from dataclasses import dataclass
from typing import TypeVar

from beanpole.client.job import Job
from beanpole.client.stats import StatsJob

B = TypeVar("B")


class Outcome(enum.StrEnum):
    """How an attempt ended."""

    DONE = "done"
    """The handler returned, and the job is deleted."""

    RETRIED = "retried"
    """The handler failed; the job is ready again after a delay."""

    BURIED = "buried"
    """The handler failed, and there are no more attempts: the job is dead, or its handler has buried it."""

    RELEASED = "released"
    """The worker stops; the job is ready for another one."""

    LOST = "lost"
    """The server has taken the job back: the connection broke, or the TTR ran out. It will be reserved again."""


@dataclass(slots=True)
class Counters:
    """What a worker has done so far; `running` and `connections` are current values."""

    reserved: int = 0
    """Jobs reserved."""
    done: int = 0
    failed: int = 0
    """Handlers that raised, or took too long; each is retried, or dead or buried."""
    retried: int = 0
    buried: int = 0
    """Includes jobs whose body could not be decoded, and jobs whose attempts ended without an outcome."""
    released: int = 0
    lost: int = 0
    running: int = 0
    """Handlers that run now, including those that go on in a thread after their timeout."""
    connections: int = 0
    """Open connections to the server."""

    def count(self, outcome: Outcome) -> None:
        setattr(self, outcome.value, getattr(self, outcome.value) + 1)


class Task(Job[B]):
    """A job as its handler sees it: its id and body, and which attempt this is."""

    __slots__ = ("attempt", "counted", "max_attempts", "stats")

    def __init__(self, id: int, body: B, stats: StatsJob, attempt: int, max_attempts: int | None) -> None:
        super().__init__(id, body)
        self.stats = stats
        """What the server said when the job was reserved: priority, age, TTR and so on."""
        self.attempt = attempt
        """The number of this attempt, from 1 to `max_attempts`."""
        self.max_attempts = max_attempts
        """The number of the last attempt; None: no limit."""
        self.counted = False
        """Whether the server counts the attempts, by a rule of the tube, and says when the next one is."""

    @property
    def tube(self) -> str:
        """The tube that the job was in."""
        return self.stats.tube

    def __repr__(self) -> str:
        return f"beanpole.Task(id={self.id!r}, body={self.body!r}, tube={self.tube!r}, attempt={self.attempt!r})"
