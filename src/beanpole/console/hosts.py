"""Which names a request may use for the console.

A page from elsewhere can make a browser ask for a name that leads here, and read the answer as its own (DNS rebinding).
So a name must be known: an address, `localhost`, or one that the operator has named. What no browser sends, a request
without a Host, is let through: HAProxy's checks are such.
"""

import ipaddress
import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

FORM = re.compile(r"(?:\[[^][]*\]|[^][:]*)(?::[0-9]*)?")
"""A host, in brackets if there are colons in it, and maybe a port: nothing stands behind."""


def host_of(text: str) -> str:
    """The host in a Host header, in small letters, without its port and without brackets."""
    text = text.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_allowed(text: str, names: Collection[str]) -> bool:
    """Whether a Host header names the console."""
    if not FORM.fullmatch(text.strip()):
        return False
    host = host_of(text)
    if host == "localhost" or host in names:
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class Hosts:
    """Refuses requests for a name that nobody has given to the console."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(host_of(name) for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http" and any(
            not is_allowed(each, self._names) for each in Headers(scope=scope).getlist("host")
        ):
            answer = PlainTextResponse(
                "This console does not know the name in Host; --http-host NAME allows it.\n", 421
            )
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)
