"""What became of the jobs of an action."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from beanpole.errors import BeanpoleError, ConnectionLostError, NotFoundError, UnknownCommandError
from beanpole.operations.jobs import Outcome

HELD = "a worker holds it"
"""Why most jobs are refused."""


@dataclass(slots=True)
class Tally:
    """How many jobs are done, and what became of the others."""

    done: int = 0
    gone: int = 0
    """They were not there any more."""

    refused: Counter[str] = field(default_factory=Counter)
    """By reason."""

    unknown: int = 0
    """They were sent, and the connection broke before the answer came."""

    ids: list[int] = field(default_factory=list)
    """Those of jobs that were put."""

    def add(self, do: str, outcomes: Iterable[Outcome]) -> None:
        """Add what became of jobs. Raises ConnectionLostError: the connection broke."""
        lost: ConnectionLostError | None = None
        for each in outcomes:
            match each.error:
                case _ if each.refusal:
                    self.refused[each.refusal + (f": {reason_of(each.error)}" if each.error else "")] += 1
                case None:
                    self.done += 1
                case ConnectionLostError() as error:
                    self.unknown += error.outcome_unknown
                    lost = lost or error
                case NotFoundError() if each.state is None:
                    self.refused["it was not there, or in a state that does not allow this"] += 1
                case NotFoundError() if not each.state:
                    self.gone += 1
                case NotFoundError():
                    self.refused[why_not(do, each.state or "")] += 1
                case error:
                    self.refused[reason_of(error)] += 1
        if lost is not None:
            raise lost

    @property
    def seen(self) -> int:
        """All of them."""
        return self.done + self.gone + self.refused.total() + self.unknown


def why_not(do: str, state: str) -> str:
    """Why a job that is there was not found by a command."""
    return HELD if state == "reserved" else f"it is {state}: there is nothing to {do}"


def reason_of(error: BeanpoleError) -> str:
    """The sentence of an error, which is the same for all jobs that have it."""
    if isinstance(error, UnknownCommandError):
        return "the server does not know the command"
    words = {"OutOfMemoryError": "the server has no room for it", "ExistsError": "another job has its key there"}
    return words.get(type(error).__name__, str(error))
