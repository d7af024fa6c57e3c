"""What the log of a cluster needs of PostgreSQL; a simulation puts its own in place.

A store is one connection: it does one thing at a time, and after a :class:`LostError` it is closed and another is
opened. Whoever opens it has been told that the server is the one that it may work with (:class:`Server`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from beanpole.errors import BeanpoleError
from beanpole.log import limits
from beanpole.log.postgres.rows import Place, Row

LEADER = "leader"
"""The role of the node that leads."""

FOLLOWER = "follower"
"""The role of a node that could lead at once."""

READING = "reading"
"""The role of a node that has not read yet what the log held when it began."""

STOPPED = "stopped"
"""The role of a node that has stopped in good order."""

QUESTION = "verify"
"""The role of what is no node but a question to all: say a digest of your jobs, by the name of this."""

OPERATOR = "beanpole cluster repair"
"""Who tells the leader what can't be read, in place of a node's name."""

FORCED = "*"
"""The successor that an operator names who wants the leader to stop leading even if nobody else can."""


class StoreError(BeanpoleError):
    """Something about the store is wrong."""


class LostError(StoreError):
    """The connection is lost, or what it did is not certain: open another, and look what became of it."""


class BusyError(StoreError):
    """The server has no memory, space or place for it now: the same again later."""


class GoneError(StoreError):
    """The segment does not exist, or no longer."""


class RefusedError(StoreError):
    """The server refuses this work for a reason that an operator must mend; the text says how."""


class NoClusterError(RefusedError):
    """There is no cluster in the database."""


class NoLeaderError(RefusedError):
    """No node leads that could do it."""


class DamagedError(RefusedError):
    """The server itself can't read what it has stored."""


class ChangedError(BeanpoleError):
    """The log is not what was written: an operator must look."""

    advice = "`beanpole cluster status` shows what is known; look at PostgreSQL"


class LossError(ChangedError):
    """Rows that this node knew to be confirmed are gone, or other sound ones stand there.

    All nodes stop, until an operator has accepted that.
    """

    advice = "look at PostgreSQL; then `beanpole cluster accept-loss` lets the cluster go on"


class UnreadableError(ChangedError):
    """A row can't be verified, which may be due to the database or to this machine: only this node stops."""

    advice = (
        "`beanpole cluster repair` lets the node that leads write the jobs of that segment again from its memory; if "
        "none leads, `beanpole cluster export --salvage` writes what can be read into a data directory"
    )

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(f"{place} {what}")
        self.place = place
        self.what = what


class FaultyError(ChangedError):
    """The rows that this node has written can't be verified: it leads no more."""

    advice = (
        "look at the memory of this machine; if the other nodes stop as well, `beanpole cluster export --salvage` "
        "writes what can be read into a data directory"
    )


class RewoundError(BeanpoleError):
    """Rows that were not confirmed are gone: nobody was answered on them."""


@dataclass(frozen=True, slots=True)
class Server:
    """The PostgreSQL server at the other end."""

    system: str
    """Its system identifier."""

    timeline: int
    """Counts the promotions of standbys: never work with a lower one than seen."""

    durability: str
    """What a commit waits for: ``quorum``, ``storage`` or ``local``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is set for the whole cluster, never for a node."""

    cluster: str
    """The id of the cluster."""

    format: int
    silence_ms: int
    """How long a follower waits for a row before it stands for leader."""

    segment_bytes: int
    body_bytes_max: int
    era: int = 0
    """Grows with each loss that is accepted: what a node knows of an earlier era need not be there; 0: none was."""

    shard: tuple[int, ...] = ()
    """The numbers of the shard that the cluster is, which rise; (): it was given none."""

    key: str = field(default="", repr=False, compare=False)
    """By which nodes with users know each other, a token; empty: there was none yet."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node says of itself, once a second. It is shown, and a leader chooses its successor by it."""

    name: str
    address: str
    role: str
    epoch: int
    applied: Place
    version: str
    format: int
    """The newest format of the log that it reads."""

    machine: str
    reaches_leader: bool
    """Whether it can connect to the leader's address."""

    writer: bytes
    wall_s: float | None = None
    """What its wall clock said then, in seconds since 1970; None: it does not say."""

    zones: str = ""
    """The version of its zone data; empty: it has none, or does not say."""

    seen_s: float = 0.0
    """What the database's wall clock said then, when it is read."""

    age_s: float = 0.0
    """How long ago it said so, when it is read."""

    @property
    def ahead_s(self) -> float | None:
        """By how many seconds its wall clock is ahead of the database's; None: it does not say."""
        return None if self.wall_s is None else self.wall_s - self.seen_s

    @property
    def is_alive(self) -> bool:
        """Whether it runs, as far as that is known."""
        return self.age_s < limits.REPORT_OLD_S and self.role not in {STOPPED, QUESTION}

    @property
    def is_warm(self) -> bool:
        """Whether it could lead at once, as far as that is known."""
        return self.is_alive and self.role == FOLLOWER


@dataclass(frozen=True, slots=True)
class Complaint:
    """A row that a node, or an operator, can't verify."""

    node: str
    place: Place
    reason: str
    verdict: str = ""
    """What the leader says to it, if it does not write the segment again."""

    is_repaired: bool = False
    """Whether the leader writes the segment again."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a row of the inbox is known by: a number alone can come again when the server lost a commit."""

    number: int
    nonce: str


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A job that an application has put in its own transaction."""

    taken: Taken
    tube: str
    options: str
    """Those of a put-job, each behind a space."""

    body: bytes
    delay_s: float | None
    """Seconds until it is due; None, or less than 0: it is."""

    expire_s: float | None
    """Seconds that are left of its time to wait; None: it has none."""

    age_s: float
    """Seconds since it was put."""


class Answer(NamedTuple):
    """What a look behind the tip has found."""

    has_tip: bool
    """Whether the tip is still there."""

    rows: list[Row]
    is_all: bool
    """Whether there was nothing behind these rows when they were read."""


class Store(Protocol):
    """One connection to the log's rows."""

    server: Server
    settings: Settings

    async def append(self, row: Row, tip: Row, taken: Sequence[Taken] = ()) -> bool:
        """Append a row directly behind the tip, and return when it is confirmed; False: it could not go there.

        In the same transaction the rows of the inbox go that are in it; if one is not there, or locked for
        long, the row can't go there.

        Raises:
            LostError: it is not known whether the row is there, or that it is confirmed.
            BusyError: it is not there.
            GoneError: the table of its segment does not exist.
        """

    async def rows_at(self, places: list[Place]) -> list[Row | None]:
        """Return the rows at some places; None: there is none, or its segment is gone."""

    async def read(self, tip: Row, bytes_max: int) -> Answer:
        """Return whether the tip is still there, and rows behind it, about `bytes_max` bytes of them.

        Raises:
            GoneError: the tip's segment was dropped.
        """

    async def segments(self) -> list[int]:
        """Return the numbers of the segments that exist."""

    async def newest(self) -> Place:
        """Return where the log ends. Raise GoneError if it has no row."""

    async def first(self, segment: int) -> Row | None:
        """Return the first row of a segment."""

    async def make_segment(self, number: int) -> None:
        """Make the table of the segment behind the newest; do nothing if there is one as new: no number is used again.

        Raises:
            BusyError: somebody is in the way.
            GoneError: there is no segment before it.
            LostError: the database has another cluster now, as for the next two.
        """

    async def forget_segment(self, number: int) -> None:
        """Forget a segment whose table is missing, so that it can be made; do nothing if the table is there."""

    async def drop_segment(self, number: int) -> None:
        """Drop the table of a segment, unless it is gone. Raise BusyError if somebody reads it."""

    async def asked(self, epoch: int) -> str:
        """Return to whom the leader of an epoch is asked to hand over; empty: it is not.

        Raises:
            ChangedError: the cluster was halted.
        """

    async def report(self, node: NodeState) -> list[NodeState]:
        """Say what a node is doing; return what all have said."""

    async def halt(self, reason: str, era: int) -> None:
        """Stop all nodes of the cluster, until an operator lets it go on; do nothing if it is in a later era."""

    async def is_current(self) -> bool:
        """Whether what is set for the cluster is what it was when this was opened.

        Raises:
            ChangedError: the cluster was halted.
        """

    async def complain(self, complaint: Complaint) -> None:
        """Note what a node can't verify, in place of what was noted of it before."""

    async def complaints(self) -> list[Complaint]:
        """Return what nodes can't verify."""

    async def withdraw(self, nodes: list[str]) -> None:
        """Forget what some nodes could not verify."""

    async def inbox_obstacle(self) -> str | None:
        """Return why the rows of the inbox can't be taken; empty: they can; None: nobody made an inbox."""

    async def read_inbox(self, after: int, count: int, bytes_max: int) -> list[InboxRow]:
        """Return rows of the inbox in the order of their numbers, from above one on; of bodies about `bytes_max` bytes.

        Raises:
            GoneError: there is no inbox.
        """

    def sever(self) -> None:
        """Cut the connection: what is under way on it fails with LostError."""

    async def close(self) -> None:
        """Close the connection."""


def origin_of(store: Store) -> dict[str, str]:
    """Return what a leader says in its rows of the log that it writes: on which server, and in which era."""
    server = store.server
    return {"system": server.system, "timeline": str(server.timeline), "era": str(store.settings.era)}


OpenStore = Callable[[], Awaitable[Store]]
"""Opens a connection. Raise LostError if there is none to be had now, RefusedError if there never will be.

Raise ChangedError if the cluster was halted, NoClusterError if the database has none.
"""
