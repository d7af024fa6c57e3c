"""What is done at once: a put, and what is about a tube or its rules."""

from collections.abc import Awaitable

from beanpole.client.errors import ConnectionLostError, NotFoundError
from beanpole.console.actions.action import Pattern, Tube
from beanpole.console.actions.pieces import Doing
from beanpole.console.actions.tally import reason_of
from beanpole.errors import BeanpoleError


async def put(doing: Doing) -> None:
    """Puts a job. What nobody has asked for is not sent, so that any server takes a plain put."""
    given, tube = doing.action.given, tube_of(doing)
    assert given.body is not None, "it is asked for"
    numbers = {"priority": given.priority, "ttr": given.ttr}
    options = {"key": given.key, "taken": given.taken, "until": given.until, "expire": given.expire}
    delay = given.delay or 0
    body = given.body

    async def job() -> None:
        id = await doing.client.put(
            body,
            delay=int(delay) if delay % 1 == 0 else delay,
            tube=tube,
            **{name: value for name, value in (numbers | options).items() if value is not None},  # type: ignore[arg-type]
        )
        doing.tally.ids.append(id)

    await once(doing, job())


async def pause(doing: Doing) -> None:
    """Keeps the jobs of a tube from being reserved."""
    await once(doing, doing.client.pause_tube(tube_of(doing), doing.action.given.seconds or 0))


async def resume(doing: Doing) -> None:
    """Ends a pause."""
    await once(doing, doing.client.pause_tube(tube_of(doing), 0))


async def set_rules(doing: Doing) -> None:
    """Sets the rules of a pattern, in place of those that it has."""
    await once(doing, doing.client.set_rules(pattern_of(doing), doing.action.given.rules or ""))


async def drop_rules(doing: Doing) -> None:
    """Drops the rules of a pattern."""
    await once(doing, doing.client.drop_rules(pattern_of(doing)))


def tube_of(doing: Doing) -> str:
    """The tube that it is about."""
    assert isinstance(doing.action.target, Tube), "the verb takes nothing else"
    return doing.action.target.name


def pattern_of(doing: Doing) -> str:
    """The pattern that it is about."""
    assert isinstance(doing.action.target, Pattern), "the verb takes nothing else"
    return doing.action.target.text


async def once(doing: Doing, command: Awaitable[None]) -> None:
    """Runs a command and adds what became of it. Raises ConnectionLostError."""
    try:
        await command
    except NotFoundError:
        doing.tally.gone += 1
    except ConnectionLostError as error:
        doing.tally.unknown += error.outcome_unknown
        raise
    except BeanpoleError as error:
        doing.tally.refused[reason_of(error)] += 1
    else:
        doing.tally.done += 1
