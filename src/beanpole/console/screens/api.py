"""The API by examples, with this console's own address and servers."""

from typing import Any

from starlette.requests import Request

from beanpole.console.answers import is_https
from beanpole.console.api import examples
from beanpole.console.api.table import OPERATIONS
from beanpole.console.screens.screen import Screen, View


def origin_of(request: Request) -> str:
    """How the browser has reached the console."""
    return f"http{'s' * is_https(request)}://{request.headers.get('host') or 'localhost'}"


async def show(view: View) -> dict[str, Any]:
    """Returns the commands."""
    origin, has_tokens = origin_of(view.request), view.console.settings.token_file is not None
    found = list(examples.commands(OPERATIONS, origin, view.server.name, has_tokens=has_tokens))
    return {
        "has_tokens": has_tokens,
        "looking": [each for each in found if " -d " not in each.line and "/actions" not in each.line],
        "acting": [each for each in found if " -d " in each.line or "/actions" in each.line],
        "others": list(examples.others(origin, has_tokens=has_tokens)),
    }


SCREEN = Screen("/examples", "examples.html", show, title="API", key="i")
