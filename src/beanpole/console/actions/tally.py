"""What became of the jobs of an action, and how a piece of them is sent."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from beanpole.client import AsyncClient, Result
from beanpole.client.errors import (
    CannotConnectError,
    ConnectionLostError,
    NotFoundError,
    UnknownCommandError,
)
from beanpole.client.pipeline import AsyncPipeline
from beanpole.errors import BeanpoleError

Issue = Callable[[AsyncPipeline[bytes], int], Result[Any]]

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

    @property
    def seen(self) -> int:
        """All of them."""
        return self.done + self.gone + self.refused.total() + self.unknown


async def together(client: "AsyncClient[bytes]", ids: Iterable[int], issue: Issue) -> list[tuple[int, Result[Any]]]:
    """Sends what `issue` makes for each id, in one go. A broken connection is the error of those that it concerns."""
    pipeline = client.pipeline(raise_errors=False)
    results = [(id, issue(pipeline, id)) for id in ids]
    try:
        await pipeline.flush()
    except ConnectionLostError as error:
        for _, each in results:
            if not each.done:
                each.fail(CannotConnectError(str(error)))  # what was sent has failed with the other error
    return results


async def sent(pipeline: AsyncPipeline[bytes], results: Sequence[Result[Any]]) -> None:
    """Sends what was collected. A broken connection is the error of those results that it concerns."""
    try:
        await pipeline.flush()
    except ConnectionLostError as error:
        for each in results:
            if not each.done:
                each.fail(error)


async def count(
    client: "AsyncClient[bytes]", tally: Tally, do: str, results: Sequence[tuple[int, BeanpoleError | None]]
) -> None:
    """Adds what became of jobs: those that were not found are asked for, to say why.

    Raises ConnectionLostError: the connection broke.
    """
    lost: ConnectionLostError | None = None
    absent: list[int] = []
    for id, error in results:
        match error:
            case None:
                tally.done += 1
            case NotFoundError():
                absent.append(id)
            case ConnectionLostError():
                tally.unknown += error.outcome_unknown
                lost = lost or error
            case _:
                tally.refused[reason_of(error)] += 1
    if lost is not None:
        tally.refused["it was not there, or in a state that does not allow this"] += len(absent)
        raise lost
    if absent:
        for _, found in await together(client, absent, lambda line, id: line.stats_job(id)):
            if isinstance(found.error, NotFoundError):
                tally.gone += 1
            elif found.error is not None:
                tally.refused["it was not there, or in a state that does not allow this"] += 1
            else:
                tally.refused[why_not(do, found.result().state)] += 1


def why_not(do: str, state: str) -> str:
    """Why a job that is there was not found by a command."""
    return HELD if state == "reserved" else f"it is {state}: there is nothing to {do}"


def reason_of(error: BeanpoleError) -> str:
    """The sentence of an error, which is the same for all jobs that have it."""
    if isinstance(error, UnknownCommandError):
        return "the server does not know the command"
    words = {"OutOfMemoryError": "the server has no room for it", "ExistsError": "another job has its key there"}
    return words.get(type(error).__name__, str(error))
