"""What a request must bring before any page is asked.

Whether a server is well is nobody's secret, and neither are its metrics: they are served to all who reach the console.
Everything else is for visitors. Without a file of tokens these are whoever reaches it on this machine, and they may
look; with one they are those who have a token, as ``Authorization: Bearer`` or as the cookie of the page that asks for
it.

What changes something needs more, for a browser sends a cookie whoever has made the request: the page that sends it
must be the console's own, by its ``Origin``, and bring back the token that stood in its form. The API takes no cookie
for that.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from beanpole.console import limits
from beanpole.console.answers import idling
from beanpole.console.security import forms
from beanpole.console.security.access import COOKIE, Access
from beanpole.console.security.visitors import READ_ONLY, STRANGER, Visitor

FORM_BYTES_MAX = 2 * 1024 * 1024
"""Bytes of any other form: a body of a job, escaped, or the IDs of a long list."""

OPEN = frozenset({"/metrics", "/health", "/ready", "/leader"})
STATIC = "/static/"
LOGIN = "/login"
API = "/api/"
OPENAPI = "/openapi.json"
LOOKING = frozenset({"GET", "HEAD"})

NO_PAGES = "This console is reached from other machines, so it has pages only with --http-token-file."

Refuse = Callable[[Request, Exception], Awaitable[Response]]


class Guard:
    """Lets through who may see, and change, what is asked for; `request.state.visitor` says who that is."""

    def __init__(self, app: ASGIApp, access: Access | None, *, is_reached: bool, refuse: Refuse) -> None:
        self._app = app
        self._access = access
        """Who may come in; None: everybody may look."""
        self._is_reached = is_reached
        """Whether other machines reach the console."""
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        request, path = Request(scope, receive), scope["path"]
        state = scope.setdefault("state", {})
        state["visitor"] = STRANGER
        if path in OPEN or path.startswith(STATIC):
            await self._app(scope, receive, send)
            return
        try:
            if path != LOGIN:
                state["visitor"] = await self._visitor(request)
            if scope["method"] not in LOOKING:
                await self._check_change(request, state["visitor"])
        except ClientDisconnect:
            return
        except HTTPException as error:
            await (await self._refuse(request, error))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _visitor(self, request: Request) -> Visitor:
        if self._access is None:
            if self._is_reached:
                raise HTTPException(403, NO_PAGES)
            return Visitor()
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            token = self._access.token(given.strip())
            if token is None:
                await slow_down(self._access, request)
                raise unauthorized("This token is not known here.")
            return Visitor(token.name, may_change=True)
        session = self._access.session(request.cookies.get(cookie_name(request), ""))
        if session is None or (is_api(request) and request.method not in LOOKING):
            raise stranger(request)
        return session.visitor

    async def _check_change(self, request: Request, visitor: Visitor) -> None:
        is_login = request.scope["path"] == LOGIN and self._access is not None
        if not visitor.may_change and not is_login:
            raise HTTPException(403, READ_ONLY[0].upper() + READ_ONLY[1:] + ".")
        if is_login or visitor.form_token:
            check_origin(request)
        if is_api(request):
            return
        form = await forms.read(request, limits.LOGIN_BYTES_MAX if is_login else FORM_BYTES_MAX)
        given = form.pop("form_token", [""])[0]
        if visitor.form_token and not hmac.compare_digest(given.encode(), visitor.form_token.encode()):
            raise HTTPException(403, "This form is of another session; go back, load its page again, and send it then.")
        request.scope["state"]["form"] = form


def cookie_name(request: Request) -> str:
    """The name of the cookie. Browsers send one to all ports of a host, and each may have another console."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


def is_api(request: Request) -> bool:
    """Whether programs ask, and not people."""
    path: str = request.scope["path"]
    return path.startswith(API) or path == OPENAPI


def check_origin(request: Request) -> None:
    """Raises HTTPException: the request was not made by a page of this console."""
    scheme, _, host = request.headers.get("origin", "").partition("://")
    if scheme not in {"http", "https"} or not host or host.lower() != request.headers.get("host", "").lower():
        raise HTTPException(
            403, "This form was sent by a page of another Origin. A proxy in front of the console must pass on Host."
        )


def stranger(request: Request) -> HTTPException:
    """What somebody who has not logged in is answered: people are led to the page where they can."""
    if is_api(request) or "text/html" not in request.headers.get("accept", ""):
        return unauthorized("This needs a token, as `Authorization: Bearer TOKEN`.")
    to = "/"
    if request.method in LOOKING:
        query = request.scope["query_string"].decode("latin-1")
        to = request.scope["path"] + (f"?{query}" if query else "")
    return HTTPException(303, "Log in first.", {"Location": f"{LOGIN}?to={quote(to, safe='/')}"})


def unauthorized(sentence: str) -> HTTPException:
    """No token, or a wrong one."""
    return HTTPException(401, sentence, {"WWW-Authenticate": 'Bearer realm="beanpole"'})


async def slow_down(access: Access, request: Request) -> None:
    """Makes an address that has tried a wrong token wait."""
    with idling(request):
        await asyncio.sleep(access.attempts.wrong(request.client.host if request.client else ""))
