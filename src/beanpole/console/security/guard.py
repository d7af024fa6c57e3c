"""What a request must bring before any page is asked, and what every answer says to browsers.

Whether a server is well is nobody's secret, and neither are its metrics, unless it has users: they are served to all
who reach the console. Everything else is for visitors. Without tokens these are whoever reaches it on this machine, and
they may look; with them they are those who have one, as ``Authorization: Bearer`` or as the cookie of the page that
asks for it.

What changes something needs more, for a browser sends a cookie whoever has made the request: the page that sends it
must be the console's own, by its ``Origin``, and bring back the token that stood in its form. The API takes no cookie
for that.
"""

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beanpole.console import limits
from beanpole.console.answers import idling
from beanpole.console.security.access import COOKIE, STRANGER, Access, Visitor, visitor_with

# --- Names of this console --------------------------------------------------------------------------------------------

HOST = re.compile(r"(?:\[[^][]*\]|[^][:]*)(?::[0-9]*)?")
"""A host, in brackets if there are colons in it, and maybe a port: nothing stands behind."""


def host_of(text: str) -> str:
    """The host in a Host header, in small letters, without its port and without brackets."""
    text = text.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_allowed(text: str, names: Collection[str]) -> bool:
    """Whether a Host header names the console."""
    if not HOST.fullmatch(text.strip()):
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
    """Refuses requests for a name that nobody has given to the console.

    A page from elsewhere can make a browser ask for a name that leads here, and read the answer as its own (DNS
    rebinding). So a name must be known: an address, `localhost`, or one that the operator has named. What no browser
    sends, a request without a Host, is let through: HAProxy's checks are such.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(host_of(name) for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(
            not is_allowed(each, self._names) for each in Headers(scope=scope).getlist("host")
        ):
            answer = PlainTextResponse(
                "This console does not know the name in Host; --http-host NAME allows it.\n", 421
            )
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


# --- Answers ----------------------------------------------------------------------------------------------------------

SAFE = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Nobody else learns of an address. `no-referrer` would say no more to others, but with it browsers send
    # `Origin: null` with our own forms, and the guard could not know them.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SafeAnswers:
    """Says with each answer, unless it says something else, what browsers shall do with it.

    Nothing of it is kept, and it loads, sends and frames nothing from elsewhere.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sent)


# --- Forms ------------------------------------------------------------------------------------------------------------

FORM_FIELDS_MAX = 10_000  # fields of a form

Form = dict[str, list[str]]
"""The fields in their order, each with all its values; empty ones too."""

FORM_TYPE = "application/x-www-form-urlencoded"


async def form(request: Request) -> Form:
    """The fields of a request that the guard has let through."""
    found: Form = request.scope["state"]["form"]
    return found


async def read_form(request: Request, bytes_max: int) -> Form:
    """Reads the fields of a form. Raises HTTPException: it is none, or too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise HTTPException(415, f"a form is {FORM_TYPE}")
    pieces, length = [], 0
    with idling(request):
        async for piece in request.stream():
            length += len(piece)
            if length > bytes_max:
                raise HTTPException(413, f"a form has {bytes_max} bytes at most")
            pieces.append(piece)
    try:
        return parse_qs(
            b"".join(pieces).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError:
        raise HTTPException(
            400, f"this is no form, or has more than {FORM_FIELDS_MAX} fields, or is not UTF-8"
        ) from None


# --- Visitors ---------------------------------------------------------------------------------------------------------

FORM_BYTES_MAX = 2 * 1024 * 1024  # bytes of any other form: a body of a job, escaped, or the IDs of a long list

METRICS = "/metrics"
OPEN = frozenset({METRICS, "/health", "/ready", "/leader"})
STATIC = "/static/"
LOGIN = "/login"
LOGOUT = "/logout"
API = "/api/"
OPENAPI = "/openapi.json"
LOOKING = frozenset({"GET", "HEAD"})

NO_PAGES = "This console is reached from other machines, so it has pages only with --http-token-file."

MAY_NOT_SEE = 'This user may not see this: it needs look = ["*"] and stats = true, and for metrics the latter.'

Refuse = Callable[[Request, Exception], Awaitable[Response]]


class Guard:
    """Lets through who may see, and change, what is asked for; `request.state.visitor` says who that is."""

    def __init__(self, app: ASGIApp, access: Access | None, *, is_reached: bool, refuse: Refuse) -> None:
        self._app = app
        self._access = access  # who may come in; None: everybody may look
        self._open = OPEN - {METRICS} if access is not None and access.users is not None else OPEN
        self._is_reached = is_reached  # whether other machines reach the console
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, path = Request(scope, receive), scope["path"]
        state = scope.setdefault("state", {})
        state["visitor"] = STRANGER
        if path in self._open or path.startswith(STATIC):
            await self._app(scope, receive, send)
            return
        try:
            if path != LOGIN:
                state["visitor"] = check_looking(request, await self._visitor(request), self._access)
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
            return visitor_with(token)
        session = self._access.session(request.cookies.get(cookie_name(request), ""))
        if session is None or (is_api(request) and request.method not in LOOKING):
            raise stranger(request)
        return session.visitor

    async def _check_change(self, request: Request, visitor: Visitor) -> None:
        is_login = request.scope["path"] == LOGIN and self._access is not None
        if not (visitor.may_change or is_login or (visitor.form_token and request.scope["path"] == LOGOUT)):
            raise HTTPException(403, visitor.read_only[0].upper() + visitor.read_only[1:] + ".")
        if is_login or visitor.form_token:
            check_origin(request)
        if is_api(request):
            return
        form = await read_form(request, limits.LOGIN_BYTES_MAX if is_login else FORM_BYTES_MAX)
        given = form.pop("form_token", [""])[0]
        if visitor.form_token and not hmac.compare_digest(given.encode(), visitor.form_token.encode()):
            raise HTTPException(403, "This form is of another session; go back, load its page again, and send it then.")
        request.scope["state"]["form"] = form


def check_looking(request: Request, visitor: Visitor, access: Access | None) -> Visitor:
    """Returns a visitor who may see what is asked for. Raises HTTPException: this one may not."""
    if not (visitor.may_meter if request.scope["path"] == METRICS else visitor.may_see):
        if access is not None:
            access.refusals.note(visitor.name, peer_of(request), "may not see this")
        raise HTTPException(403, MAY_NOT_SEE)
    return visitor


def peer_of(request: Request) -> str:
    """The address from which a request came; empty: a Unix socket."""
    return request.client.host if request.client else ""


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
    return HTTPException(401, sentence, {"WWW-Authenticate": 'Bearer realm="beanpole"'})


async def slow_down(access: Access, request: Request) -> None:
    """Makes an address that has tried a wrong token wait."""
    access.refusals.note("", peer_of(request), "nobody has this token")
    with idling(request):
        await asyncio.sleep(access.attempts.wrong(peer_of(request)))
