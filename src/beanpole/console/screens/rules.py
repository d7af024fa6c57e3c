"""The rules of tubes: where each is in force, and what applies to a tube."""

from typing import Any

from beanpole.console.reading import tubes
from beanpole.console.reading.tubes import RuleSet
from beanpole.console.screens.actions import KNOWN_RULES
from beanpole.console.screens.screen import Screen, View, ask_all
from beanpole.console.servers import Server, holders
from beanpole.console.streams import Pieces
from beanpole.errors import ArgumentError
from beanpole.protocol import wire

TUBES_SHOWN = 5  # tubes that a row names


def is_tube(name: str) -> bool:
    try:
        wire.tube_name(name)
    except ArgumentError:
        return False
    return True


async def show(view: View) -> dict[str, Any]:
    tube, pattern = view.query.get("tube", ""), view.query.get("pattern", "")

    async def ask(server: Server) -> tuple[bool, list[RuleSet]]:
        return await tubes.has_rules(server), await tubes.all_rules(server)

    heard, away = await ask_all(view, ask)
    rows = [(each.server.name, found) for each in heard for found in each.value[1]]
    applying = [
        (each.server.name, next((one for one in each.value[1] if one.pattern == found), None))
        for each in heard
        for found in (tubes.pattern_for(tube, [one.pattern for one in each.value[1]]),)
        if each.value[0]
    ]
    edited = next((found for _, found in rows if found.pattern == pattern), None)
    return {
        "away": away,
        "rows": rows,
        "tube": tube,
        "is_tube": is_tube(tube),
        "applying": applying if tube else [],
        "pattern": pattern,
        "text": edited.rules.text if edited else "",
        "known": KNOWN_RULES,
        "shown": TUBES_SHOWN,
        "servers": [each.server.name for each in heard if each.value[0]],
        "missing": [each.server.name for each in heard if not each.value[0]],
        "needs": tubes.NEEDS_RULES,
    }


async def lines(view: View) -> Pieces:
    for server in await holders(view.servers):
        yield [
            {"server": server.name, "pattern": each.pattern, "rules": dict(each.rules), "tubes": each.tubes}
            for each in await tubes.all_rules(server)
        ]


SCREEN = Screen("/rules", "rules.html", show, title="Rules", key="r", lines=lines)
