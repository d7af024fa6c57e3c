"""Plans over the commands of a client, and what runs them with a blocking client or one for asyncio. No I/O of its own.

A plan is a generator. It yields a :class:`Step`, which says what a client shall send, and is resumed with what that
returned or with its error. Whatever else it yields is an item of its result: jobs, a page at a time. Both kinds of
clients run the same plans, so a way around on an old server is written once.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from beanpole.client import Client, Result
from beanpole.errors import BeanpoleError, CannotConnectError, ConnectionLostError

if TYPE_CHECKING:
    from beanpole.client import AsyncClient

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")


class Step:
    """Something that a client does: a command, or several that go together."""

    __slots__ = ("do", "is_pipeline")

    def __init__(self, do: Callable[[Any], Any], *, is_pipeline: bool) -> None:
        self.do = do
        """Calls a method of a client, or those of a pipeline."""
        self.is_pipeline = is_pipeline


Plan = Generator[Step, Any, T]
"""A plan that returns something, and has no items."""

Walk = Generator[Step | T, Any, R]
"""A plan that has items, and returns something."""


# --- Steps ------------------------------------------------------------------------------------------------------------


def ask(do: Callable[[Any], Any]) -> Plan[Any]:
    """Call a method of the client and return what it does. Raises its errors."""
    return (yield Step(do, is_pipeline=False))


def together(keys: Iterable[K], issue: Callable[[Any, K], Result[Any]]) -> Plan[list[tuple[K, Result[Any]]]]:
    """Send one command for each key, all in one go; a broken connection is the error of those that it concerns."""
    asked = yield from several(keys, lambda pipeline, key: [issue(pipeline, key)])
    return [(key, result) for key, (result,) in asked]


def several(
    keys: Iterable[K], issue: Callable[[Any, K], Sequence[Result[Any]]]
) -> Plan[list[tuple[K, Sequence[Result[Any]]]]]:
    """Do the same with several commands for each key."""
    asked: list[tuple[K, Sequence[Result[Any]]]] = []

    def do(pipeline: Any) -> None:  # noqa: ANN401 - of either client
        asked.extend((key, issue(pipeline, key)) for key in keys)

    try:
        yield Step(do, is_pipeline=True)
    except ConnectionLostError as error:
        for each in [result for _, results in asked for result in results]:
            if not each.done:
                each.fail(CannotConnectError(str(error)))  # what was sent has failed with the other error
    return asked


def pieces(ids: Sequence[K], size: int = 1_000) -> list[Sequence[K]]:
    """Cut a list into round trips."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


# --- Clients ----------------------------------------------------------------------------------------------------------


def walk(client: Client[bytes], plan: Walk[T, R]) -> Generator[T, None, R]:
    """Run a plan with a blocking client: its items, and what it returns. Raises what the plan does."""
    given: Any = None
    error: BeanpoleError | None = None
    while True:
        try:
            step = plan.send(given) if error is None else plan.throw(error)
        except StopIteration as end:
            returned: R = end.value
            return returned
        given = error = None
        if not isinstance(step, Step):
            yield step
            continue
        try:
            if step.is_pipeline:
                with client.pipeline(raise_errors=False) as pipeline:
                    step.do(pipeline)
            else:
                given = step.do(client)
        except BeanpoleError as raised:
            error = raised


def run(client: Client[bytes], plan: Plan[R]) -> R:
    """Run a plan without items with a blocking client. Raises what the plan does."""
    running: Generator[None, None, R] = walk(client, plan)
    try:
        next(running)
    except StopIteration as end:
        returned: R = end.value
        return returned
    raise AssertionError("the plan has items: walk over them")


async def walk_async(client: "AsyncClient[bytes]", plan: Walk[T, Any]) -> AsyncGenerator[T, None]:
    """Do the same as `walk` with a client for asyncio, but for what the plan returns."""
    given: Any = None
    error: BeanpoleError | None = None
    while True:
        try:
            step = plan.send(given) if error is None else plan.throw(error)
        except StopIteration:
            return
        given = error = None
        if not isinstance(step, Step):
            yield step
            continue
        try:
            given = await _exchange(client, step)
        except BeanpoleError as raised:
            error = raised


async def run_async(client: "AsyncClient[bytes]", plan: Plan[R]) -> R:
    """Do the same as `run` with a client for asyncio."""
    returned: list[R] = []

    def kept() -> Walk[None, None]:
        returned.append((yield from plan))

    async for _ in walk_async(client, kept()):
        raise AssertionError("the plan has items: walk over them")
    return returned[0]


async def _exchange(client: "AsyncClient[bytes]", step: Step) -> Any:  # noqa: ANN401 - what the command returns
    if not step.is_pipeline:
        return await step.do(client)
    async with client.pipeline(raise_errors=False) as pipeline:
        step.do(pipeline)
    return None
