"""Schedules that a worker declares (:meth:`Worker.schedule`), and how they are set.

They are set over the first connection that a worker makes, and again after each loss: a server without a log has
forgotten them. Where a server has the same already, nothing changes there. None is ever dropped: two versions of a
program side by side would take turns at it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beanpole.client.scheduling import ScheduleOptions, document_of, set_line
from beanpole.errors import ArgumentError, BeanpoleError, ScheduleError, UnsupportedError

if TYPE_CHECKING:
    from beanpole.worker.client import WorkerClient

FATAL = (ScheduleError, UnsupportedError)
"""The errors for which a worker does not begin: its program, or its server, is another one than it should be."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule, and the function that it is for."""

    name: str
    document: bytes
    function: str  # as tasks.nightly

    def told(self, error: BeanpoleError) -> BeanpoleError:
        """The same error, which says what it is about."""
        about = f"the schedule {self.name} of {self.function}"
        if isinstance(error, ScheduleError):
            return ScheduleError(0, f"{about}: {error.why}")
        error.args = (f"{about}: {error}",)
        return error


def declare(name: str, function: str, options: ScheduleOptions, body: bytes) -> Declared:
    """A schedule. Raises ScheduleError or ArgumentError for a line that is wrong, and TypeError for no option."""
    made = Declared(name, b"", function)
    try:
        document = document_of(options, body)
        set_line(name, document)
    except (ScheduleError, ArgumentError) as error:
        raise made.told(error) from None
    return Declared(name, document, function)


async def set_all(client: "WorkerClient", schedules: Sequence[Declared]) -> list[tuple[Declared, BeanpoleError]]:
    """Sets schedules; returns those that were not set, and why. Raises ConnectionLostError."""
    async with client.pipeline(raise_errors=False) as together:
        results = [together.set_schedule_text(each.name, each.document) for each in schedules]
    pairs = zip(schedules, results, strict=True)
    return [(each, each.told(result.error)) for each, result in pairs if result.error is not None]
