"""`python -m tests.soak.cluster.deadly POINT COUNT serve ...`: a node that dies with rows of the inbox in its hands.

It ends as by `kill -9` when it passes that point for the COUNTth time.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from beanpole.cli.main import main
from beanpole.log.postgres.inbox import Inbox
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.pgstore import PostgresStore
from beanpole.log.postgres.rows import Row
from beanpole.log.postgres.store import InboxRow, Taken

POINTS = ("read, not put", "put, not sent", "append sent, not answered", "appended, not noted", "confirmed, not said")
"""Between two steps of a leader with rows of the inbox, in their order."""

ANSWER_S = 0.003
"""About how long PostgreSQL works on an append: a node that has sent one dies within that."""

left = 0


def passes(point: str) -> None:
    """End here, if that is what was asked for."""
    global left  # noqa: PLW0603 - a process is told once
    if point == sys.argv[1]:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)


put_rows, confirmed, confirm, results = Inbox.put_rows, Inbox.confirmed, Leading.confirm, PostgresStore.results


async def put_rows_and_die(self: Inbox, rows: Sequence[InboxRow]) -> None:
    """Put rows; die before or after."""
    passes(POINTS[0])
    await put_rows(self, rows)
    passes(POINTS[1])


async def results_or_die(self: PostgresStore, count: int, tolerated: Sequence[str] = ()) -> list[Any]:
    """Send an append; die before its answer is read."""
    if tolerated:  # it takes rows of the inbox
        self.connection.pgconn.flush()
        if left == 1 and sys.argv[1] == POINTS[2]:
            time.sleep(random.random() * ANSWER_S)  # noqa: ASYNC251 - nothing else may happen
        passes(POINTS[2])
    return await results(self, count, tolerated)


async def confirm_and_die(self: Leading, row: Row, taken: Sequence[Taken] = ()) -> bool:
    """Append; die before anything comes of that."""
    is_sure = await confirm(self, row, taken)
    if taken:
        passes(POINTS[3])
    return is_sure


def confirmed_and_die(self: Inbox, index: int) -> None:
    """Note that everything that was taken is confirmed; die before anybody hears of it."""
    before = self.sent_index
    confirmed(self, index)
    if before and not self.sent_index:
        passes(POINTS[4])


if __name__ == "__main__":
    left = int(sys.argv.pop(2))
    Inbox.put_rows = put_rows_and_die  # type: ignore[method-assign]
    Inbox.confirmed = confirmed_and_die  # type: ignore[method-assign]
    Leading.confirm = confirm_and_die  # type: ignore[method-assign]
    PostgresStore.results = results_or_die  # type: ignore[method-assign]
    sys.exit(main(sys.argv[2:]))
