"""The audit log: each range that was reserved or given back, as a line of JSON, in a file for each day.

It says which process could hand out a number, and when. Numbers do not wait for it: a thread writes what is durable in
the database already. A disk that is full or hangs costs lines, which the process's own log says once, and a crash may
cost the last ones: numbers that are in no line of a counter were the node's whose line is before them.
"""

import json
import queue
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from beanpole_ids import limits
from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Counter, Key


class Update(NamedTuple):
    """What has become of the numbers from `first` to `last` of a counter."""

    event: str
    key: Key
    cycle_s: int
    """When their cycle began."""

    first: int
    last: int


def reserved(counter: Counter, mark: Mark) -> Update:
    """Return what a range has that is durable now, and not confirmed yet."""
    before = counter.durable
    if before is not None and (before.cycle_s, before.kind) == (mark.cycle_s, mark.kind):
        last = before.reserved
    elif (counter.cycle_s, counter.kind) == (mark.cycle_s, mark.kind):
        last = max(counter.last, counter.reserved)  # above what another kind of cycle, or id_server, has given
    else:
        last = counter.shape.minimum - 1
    return Update("reserved", counter.key, mark.cycle_s, counter.shape.after(last), mark.reserved)


def given_back(counter: Counter, mark: Mark) -> Update:
    """Return what is left of a range, which nobody has got."""
    last = counter.durable.reserved if counter.durable else mark.reserved
    return Update("given back", counter.key, mark.cycle_s, counter.shape.after(mark.reserved), last)


class Audit:
    """Writes updates in a thread of its own."""

    def __init__(
        self,
        prefix: str,
        node: int,
        epoch: int,
        logger: Any,  # noqa: ANN401 - structlog's
        wall_s: Callable[[], float],
    ) -> None:
        """Begin. `prefix`: the path, which the day and ``.log`` follow, as the logs of the original are named."""
        self.prefix = prefix
        self.logger = logger
        self.wall_s = wall_s
        self._of = {"node": node, "epoch": epoch}
        self._waiting: queue.Queue[tuple[float, Sequence[Update]] | None] = queue.Queue(limits.AUDIT_WAITING_MAX)
        self.lost_count = 0
        """Lines that were not written since the last one that was."""

        self._is_cut = False
        """Whether the last line may be cut."""

        self._thread = threading.Thread(target=self._run, name="ids-audit", daemon=True)
        self._thread.start()

    def write(self, updates: Sequence[Update]) -> None:
        try:
            self._waiting.put_nowait((self.wall_s(), updates))
        except queue.Full:
            self._lose(len(updates), "the disk is too slow")

    def close(self) -> None:
        """Write what waits, unless the disk hangs."""
        try:
            self._waiting.put(None, timeout=limits.AUDIT_STOP_S)
        except queue.Full:
            return
        self._thread.join(limits.AUDIT_STOP_S)

    def _run(self) -> None:
        while (found := self._waiting.get()) is not None:
            time_s, updates = found
            now = datetime.fromtimestamp(time_s, UTC)
            text = "".join(f"{self._line(now, each)}\n" for each in updates)
            try:
                # Opened each time: a file may be moved away, and a full disk have room again.
                with Path(f"{self.prefix}.{now.astimezone():%Y%m%d}.log").open("a") as file:
                    file.write("\n" + text if self._is_cut else text)
            except OSError as error:
                self._is_cut = True
                self._lose(len(updates), error.strerror or str(error))
                continue
            self._is_cut = False
            if self.lost_count:
                self.logger.warning("audit log goes on", lost_lines=self.lost_count)
                self.lost_count = 0

    def _line(self, now: datetime, update: Update) -> str:
        rule, app = (each.decode("utf-8", "backslashreplace") for each in update.key)
        moment = now.isoformat(timespec="milliseconds")
        names = {"time": moment, "event": update.event, **self._of, "rule": rule, "app": app}
        return json.dumps(names | {"cycle_s": update.cycle_s, "from": update.first, "to": update.last})

    def _lose(self, count: int, reason: str) -> None:
        if not self.lost_count:
            self.logger.warning("audit log fails", reason=reason, effect="lines are lost, and numbers go on")
        self.lost_count += count
