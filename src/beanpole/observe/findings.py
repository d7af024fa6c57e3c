"""The words of `doctor`: what it inspects (`Visit`), and what it finds (`Finding`)."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from beanpole.observe.sampling import Inspected, Sample

if TYPE_CHECKING:
    from beanpole.client import Stats, StatsTube
    from beanpole.shards.map import Places


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 0
    """Good to know; the server counts as healthy."""
    WARNING = 1
    """Somebody should look at it, today."""
    ERROR = 2
    """Jobs are in danger or stand still, or will soon."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    severity: Severity
    summary: str
    """One sentence."""
    advice: str
    """What to do."""
    evidence: tuple[str, ...] = ()
    """What was seen, with numbers: a line each."""
    tubes: tuple[str, ...] = ()
    """The tubes that it is about, the worst first."""


@dataclass(frozen=True)
class Visit:
    """Two samples of a server, and a closer look at the tubes with the most jobs."""

    before: Sample
    after: Sample
    ready: Mapping[str, Inspected] = field(default_factory=dict)
    """The next ready job by tube."""
    buried: Mapping[str, Inspected] = field(default_factory=dict)
    """The first buried job by tube."""
    held: Mapping[str, float] = field(default_factory=dict)
    """The TTR of a job that is held, by tube, in seconds."""
    files_max: int | None = None
    """Files that the server's process may have open; None: not known."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """What keeps schedules from putting what is due, by their names."""
    refused: Collection[str] = ()
    """The tubes into whose jobs the user may not look."""
    shards: "Mapping[str, Visit]" = field(default_factory=dict)
    """Visits of the shards that are there, by their names, if this is one of all that a map has."""
    places: "Places | None" = None
    """That map; None: there is none."""
    misfits: Collection[str] = ()
    """What of the shards does not fit the map, a sentence each."""
    peers: Collection[str] = ()
    """Clients of other machines, of a server without users."""
    own_connections: int = 1
    """Connections of the doctor, which watch the default tube."""

    @property
    def server(self) -> "Stats":
        return self.after.stats

    @property
    def dead_tubes(self) -> Collection[str]:
        """The tubes into which rules send the dead."""
        return self.after.dead_tubes

    @property
    def seconds(self) -> float:
        return (self.after.at_ns - self.before.at_ns) / 1e9

    @property
    def restarted(self) -> bool:
        """Whether the server was restarted between the samples, so that counters can't be compared."""
        return self.before.stats.id != self.after.stats.id

    @property
    def cores_used(self) -> float:
        """How much of a core the server used between the samples; 0 if it was restarted, or looked at once."""
        before, after = self.before.stats, self.server
        used_s = after.rusage_utime + after.rusage_stime - before.rusage_utime - before.rusage_stime
        return 0.0 if self.restarted or not self.seconds else used_s / self.seconds

    def grown(self, *keys: str) -> int:
        """By how much some counts of the server, by its names, grew between the samples; 0 if it was restarted."""
        if self.restarted:
            return 0
        return sum(int(self.after.stats.get(key, 0)) - int(self.before.stats.get(key, 0)) for key in keys)

    def tubes(self) -> Iterator[tuple["StatsTube | None", "StatsTube"]]:
        """Each tube, as it was before (None: it was not there, or another server's) and as it is."""
        for name, tube in self.after.tubes.items():
            yield (None if self.restarted else self.before.tubes.get(name)), tube

    def watching(self, tube: "StatsTube") -> int:
        """Connections that watch a tube, without ours."""
        return tube.current_watching - (self.own_connections if tube.name == "default" else 0)

    def lonely(self) -> Iterator["StatsTube"]:
        """Tubes that have ready jobs, and that nobody watches."""
        return (tube for _, tube in self.tubes() if tube.current_jobs_ready and self.watching(tube) <= 0)


def jobs_in(stats: "Stats | StatsTube") -> int:
    return sum(getattr(stats, f"current_jobs_{state}") for state in ("ready", "reserved", "delayed", "buried"))


Check = Callable[[Visit], Iterator[Finding]]
"""Checks a visit for one kind of trouble, which its name says."""
