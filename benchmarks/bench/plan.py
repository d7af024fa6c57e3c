"""The words of a benchmark: who sends what (`Group`), to which server (`Scenario`), and what is asked of it (`Row`).

Everything that can be measured is an entry of a table made of these; a new row needs no new code.
"""

from dataclasses import dataclass, field
from typing import Literal

Figure = Literal[
    "rate",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "cpu_us",
    "cpu_delete_us",
    "bytes_per_job",
    "start_ms",
    "disk_bytes",
    "over_sync_us",
    "sync_us",
]
"""What a row looks at, unit last; `FIGURES` says each in words."""

FIGURES: dict[Figure, str] = {
    "rate": "commands/s",
    "p50_us": "p50 latency, µs",
    "p99_us": "p99 latency, µs",
    "p999_us": "p99.9 latency, µs",
    "max_us": "longest latency, µs",
    "cpu_us": "server CPU a command, µs",
    "cpu_delete_us": "server CPU a delete, µs",
    "bytes_per_job": "memory a job, bytes",
    "start_ms": "exec to first answer, ms",
    "disk_bytes": "disk bytes a command",
    "over_sync_us": "p50 latency above one fdatasync, µs",
    "sync_us": "p50 of one fdatasync, µs",
}

Measure = Literal["load", "start", "replay", "lone", "lone-apart"]
"""How a sample is taken: drive a load; start the server only; fill its log, end it, and start it again; put alone,
where the kernel places server and client, or on a core each."""


@dataclass(frozen=True)
class Group:
    """Connections that all do the same, in lock step: each sends a batch, waits for all its replies, sends the next."""

    connections: int = 1
    in_flight: int = 1
    """Commands in a batch."""
    body_bytes: int = 100
    programme: str = "prd"
    """The batches in turn, a letter each: p put, r reserve, d delete (the oldest jobs held). Empty: stay idle."""
    tubes: int = 0
    """Tubes that the group's jobs go through; 0: one for each connection. With more tubes than connections each
    connection watches its share, and names the next one with a `use` before each batch of puts."""
    held: int = 0
    """Jobs that each connection keeps reserved all the time: it deletes the oldest when it has more."""
    counted: bool = True
    """Whether the latency of these commands is the result (of every command counts for rate and CPU)."""
    name: str = "main"
    """Part of the names of its tubes; groups of different names never share jobs."""


@dataclass(frozen=True)
class Scenario:
    """A server's flags, what is put into it beforehand, and the load."""

    groups: tuple[Group, ...] = (Group(),)
    other_tubes: int = 0
    """Further tubes that exist all the time, one ready job in each."""
    measure: Measure = "load"
    seconds: float | None = None
    """How long the load runs; None: what the user asked for."""
    operations: int = 0
    """Commands after which the load ends; 0: only time ends it."""
    args_ours: tuple[str, ...] = ()
    """Further flags of our server; `{data}` becomes an empty directory."""
    args_theirs: tuple[str, ...] = ()
    args_floor: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ask:
    """What a figure has to reach."""

    bound: float
    of: Literal["theirs", "floor", "own", "absolute"] = "theirs"
    """The bound is a multiple of beanstalkd's figure, of the floor's, of our own in the row's baseline, or the
    figure itself."""
    at_most: bool = True
    """False: the bound is a minimum."""

    def met(self, value: float) -> bool:
        """Whether a ratio (or, if absolute, a figure) is within the bound."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.bound:g}{'' if self.of == 'absolute' else ' ×'}"


@dataclass(frozen=True)
class Row:
    """One line of a table: a figure of a scenario, and what is asked of it."""

    name: str
    """For `--only`: lower case, no spaces, unique over all tables."""
    title: str
    figure: Figure
    scenario: Scenario
    ask: Ask | None = None
    baseline: Scenario | None = None
    """What `Ask.of == "own"` compares with, measured in the same round."""
    quick: Scenario | None = None
    """A smaller scenario for `--quick`; None: the same one, for a shorter time."""
    rounds_max: int = 99
    """For figures that do not vary from run to run."""


@dataclass
class Sample:
    """One measurement of one server. A figure that the scenario does not yield is missing."""

    figures: dict[Figure, float] = field(default_factory=dict)
    commands: int = 0
    peak_bytes: int = 0
    """The server's largest resident size (VmHWM)."""
    server_busy: float = 0.0
    """Share of one core that the server used while the load ran."""
    generator_busy: float = 0.0
    """The same of the load generator."""
    others_busy: float = 0.0
    """The same of everything else on the machine, which the latencies suffer from."""
