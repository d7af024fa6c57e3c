"""What brings back what was before: of a pause, and of one job that was buried or kicked."""

from beanpole.client import AsyncClient
from beanpole.console.actions.action import Action, Given, Ids, Tube
from beanpole.errors import NotFoundError


async def undo_of(client: AsyncClient[bytes], action: Action) -> Action | None:
    """The action that undoes one which has not been done yet; None: there is none."""
    try:
        match action:
            case Action("pause" | "resume", target=Tube(name=name)):
                left_s = (await client.stats_tube(name)).pause_time_left
                return paused(action, left_s)
            case Action("kick" | "bury", target=Ids(ids=(id,))):
                before = await client.stats_job(id)
                if before.state == "delayed":
                    given = Given(delay=before.time_left, priority=before.pri)
                    return Action("snooze", action.server, action.target, given)
                if before.state == "buried" and action.verb == "kick":
                    return Action("bury", action.server, action.target, Given(priority=before.pri))
                if (
                    before.state == "ready"
                    and action.verb == "bury"
                    and action.given.get("priority", before.pri) == before.pri
                ):
                    return Action("kick", action.server, action.target)
    except NotFoundError:
        pass
    return None


def paused(action: Action, left_s: int) -> Action | None:
    """A pause as it was; None: it was and is none."""
    if left_s:
        return Action("pause", action.server, action.target, Given(seconds=left_s))
    return Action("resume", action.server, action.target) if action.verb == "pause" else None
