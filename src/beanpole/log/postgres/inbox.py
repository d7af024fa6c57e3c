"""The inbox: rows that applications have committed become jobs, each of them once.

The leader reads what it sees, puts it as a client would, and its next row of the log takes the rows away in the same
transaction: a job of the inbox is in the log or a row in the inbox, never both or neither. Nothing is read while
something that was taken is not confirmed, or it would be taken twice.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beanpole.errors import BeanpoleError
from beanpole.log import limits
from beanpole.log.postgres.observer import Observer
from beanpole.log.postgres.store import (
    BusyError,
    GoneError,
    InboxRow,
    LostError,
    OpenStore,
    RefusedError,
    Store,
    Taken,
)
from beanpole.log.postgres.tasks import watched
from beanpole.protocol.limits import EXPIRE_S_MIN

if TYPE_CHECKING:
    from beanpole.log.encoder import Encoder

FULL_SHARE = 20
"""Of the time at most one part in so many goes into reading from the beginning, past rows that are gone.

They stay beside an open snapshot, so this can take long. In between only what is above the highest number is read,
which misses what was committed late.
"""

PUT_REPLIES = (b"INSERTED ", b"EXISTS ")


class PutError(BeanpoleError):
    """A row of the inbox does not become a job."""


Put = Callable[[bytes], bytes]
"""Puts a job: given the command with its body it returns the reply.

Only called while the log has room: a command that had to wait would be done later, and its row be read again.
"""


def command_of(row: InboxRow) -> bytes:
    """Return the put-job that makes a job of a row."""
    text = f"put-job {len(row.body)} tube={row.tube}{row.options}"
    if row.delay_s is not None and row.delay_s > 0:
        text += f" delay={row.delay_s:.3f}"
    if row.expire_s is not None:
        text += f" expire={max(row.expire_s, EXPIRE_S_MIN):.3f}"
    return b"%b\r\n%b\r\n" % (text.encode(), row.body)


@dataclass(slots=True)
class Sent:
    """A row that became a job, and the record with which that is in the log."""

    taken: Taken
    index: int


class Inbox:
    """Takes the rows of the inbox, for the node that leads."""

    def __init__(self, records: "Encoder", open_store: OpenStore, observer: Observer) -> None:
        self.records = records
        self.open_store = open_store
        self.observer = observer
        self.put: Put | None = None
        """Set by what serves clients; None: nothing does."""

        self.store: Store | None = None
        self.waiting: deque[Sent] = deque()
        """What became jobs, and is in no row of the log."""

        self.sent_index = 0
        """The last record of what is in a row that is not confirmed; 0: nothing is."""

        self.work: Callable[[], None] = lambda: None
        """Asks for a row of the log."""

        self.went_on = asyncio.Event()
        """Set when something was confirmed."""

        self.is_there = asyncio.Event()
        """Set while the database has an inbox whose rows can be taken."""

        self.highest = 0
        self.full_at_s = 0.0
        """When the inbox is read from its beginning again, on the loop's clock."""

        self.problem = ""
        """Why nothing is taken; empty: it is."""

        self.taken_count = 0
        self.oldest_s = 0.0
        """How long ago the oldest was put of those that were read last, when they were read."""

        self.rests_from_s = 0.0
        """Since when nothing is taken, on the loop's clock, if that is so."""

    # --- called by the leader -----------------------------------------------------------------------------------------

    def take_to(self, index: int) -> list[Taken]:
        """Return what goes with a row of the log that ends with this record."""
        taken: list[Taken] = []
        while self.waiting and self.waiting[0].index <= index:
            taken.append(self.waiting.popleft().taken)
        if taken:
            self.sent_index = index
        return taken

    def confirmed(self, index: int) -> None:
        """Go on, if everything that was taken is confirmed."""
        if self.sent_index <= index:
            self.sent_index = 0
        self.went_on.set()

    def looked(self, obstacle: str | None) -> None:
        """Note why the rows of the database's inbox can't be taken; empty: they can; None: it has none."""
        if obstacle == "":
            self.is_there.set()
            return
        self.is_there.clear()
        if obstacle:
            self.rest(obstacle)
        else:
            self.problem = ""

    def facts(self) -> dict[str, str]:
        """Return what ``stats`` says of the inbox; nothing if there is none."""
        if not (self.is_there.is_set() or self.problem):
            return {}
        return {
            "inbox-taken": str(self.taken_count),
            "inbox-age": f"{self.oldest_s + self.rested_s():.3f}",
            "inbox-rests": "true" if self.problem else "false",
        }

    def rested_s(self) -> float:
        """Return for how many seconds nothing is taken."""
        return asyncio.get_running_loop().time() - self.rests_from_s if self.problem else 0.0

    # --- a task -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take what there is, again and again, until cancelled."""
        try:
            while True:
                await self.is_there.wait()
                try:
                    pause_s = await self.look()
                    if self.is_there.is_set():
                        self.problem = ""
                except (LostError, BusyError, GoneError, RefusedError, PutError) as error:
                    self.rest(str(error))
                    if self.store is not None:
                        await self.store.close()
                        self.store = None
                    pause_s = limits.INBOX_RETRY_S
                await asyncio.sleep(pause_s)
        finally:
            if self.store is not None:
                await self.store.close()

    def rest(self, reason: str) -> None:
        """Note why nothing is taken."""
        if not self.problem:
            self.rests_from_s = asyncio.get_running_loop().time()
        self.problem = reason
        self.observer.inbox_rests(reason)

    async def look(self) -> float:
        """Take the next rows if nothing is under way; return how many seconds until the next look."""
        while self.put is None or self.waiting or self.sent_index or not self.has_room():
            await self.progress()
        store = self.store = self.store or await self.open_store()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        full = began_s >= self.full_at_s
        after = 0 if full else self.highest
        rows = await watched(store.read_inbox(after, limits.INBOX_ROWS, limits.ROW_BYTES), store, self.open_store)
        if full:
            self.full_at_s = began_s + FULL_SHARE * (loop.time() - began_s)
        self.oldest_s = max((row.age_s for row in rows), default=0.0)
        if not rows:
            return limits.POLL_S
        await self.put_rows(rows)
        self.work()
        return 0.0

    async def put_rows(self, rows: Sequence[InboxRow]) -> None:
        """Make jobs of rows, some at a time, so that clients are served between.

        Raises:
            PutError: one can't become a job. It stays, and with it those behind.
        """
        for at, row in enumerate(rows):
            if at % limits.INBOX_ROWS_AT_ONCE == 0 and at:
                self.work()
                await asyncio.sleep(0)
            while self.put is None or not self.has_room():
                await self.progress()
            reply = self.put(command_of(row))
            if not reply.startswith(PUT_REPLIES):
                raise PutError(f"row {row.taken.number} was answered {reply.decode(errors='replace').strip()!r}")
            self.waiting.append(Sent(row.taken, int(self.records.index)))
            self.highest = max(self.highest, row.taken.number)
            self.taken_count += 1

    async def progress(self) -> None:
        """Ask for a row, and wait a little until one is confirmed."""
        self.went_on.clear()
        self.work()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.POLL_S):
                await self.went_on.wait()

    def has_room(self) -> bool:
        """Whether the log takes more: what waits for its rows is bounded."""
        return not self.records.waits and self.records.unwritten_bytes < limits.UNCONFIRMED_BYTES_MAX // 2
