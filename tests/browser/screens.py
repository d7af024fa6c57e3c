"""The addresses of the screens, for tests that look at each."""

from beanpole.console.screens.table import SCREENS
from tests.browser.world import BURIED, READY, SCHEDULE, World

RUN = "/actions/{id:int}"
PATHS = tuple(screen.path for screen in SCREENS)


def address_of(path: str, world: World) -> str:
    """Where a screen of a world is, with something to see."""
    if path == "/jobs":
        return f"/jobs?tube={BURIED}&state=buried"  # with reasons, and few: axe looks at each row
    if path == RUN:
        return acted(world)
    return (
        path.replace("{tube:path}", READY)
        .replace("{schedule:path}", SCHEDULE)
        .replace("{id}", str(world.ids[BURIED][-1]))
    )


def acted(world: World) -> str:
    """Where an action is that has been done: a pause, which a page shows with all that it can have."""
    fields = {"verb": "pause", "server": world.name, "tube": READY, "seconds": "0", "mark": "1"}
    answer = world.console.post("/actions", fields, world.token)
    assert answer.status == 303, answer.text
    return answer.headers["location"]
