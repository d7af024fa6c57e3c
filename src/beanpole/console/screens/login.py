"""The page that asks for the token, and gives a cookie for it."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from beanpole.console import limits
from beanpole.console.answers import is_https
from beanpole.console.screens import render
from beanpole.console.screens.screen import Screen, View, nothing
from beanpole.console.security import guard
from beanpole.console.security.access import Access, visitor_with
from beanpole.console.security.guard import cookie_name, slow_down

SCREEN = Screen("/login", "login.html", nothing, title="")


async def show(request: Request) -> Response:
    access_of(request)
    return page(request, {"to": local(request.query_params.get("to", "/")), "is_wrong": False})


async def log_in(request: Request) -> Response:
    access, sent = access_of(request), await guard.form(request)
    to = local(sent.get("to", ["/"])[0])
    token = access.token(sent.get("token", [""])[0].strip())
    if token is None:
        await slow_down(access, request)
        return page(request, {"to": to, "is_wrong": True}, 401)
    guard.check_looking(request, visitor_with(token), access)
    answer = RedirectResponse(to, 303)
    answer.set_cookie(
        cookie_name(request),
        access.begin(token).cookie,
        max_age=limits.SESSION_S,
        httponly=True,
        samesite="strict",
        secure=is_https(request),
    )
    return answer


async def log_out(request: Request) -> Response:
    """Ends the session, wherever its cookie has been copied to."""
    access = access_of(request)
    session = access.session(request.cookies.get(cookie_name(request), ""))
    if session is not None:
        access.end(session)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(cookie_name(request), httponly=True, samesite="strict")
    return answer


def access_of(request: Request) -> Access:
    """What knows the tokens. Raises HTTPException: there is no need to log in."""
    found = request.app.state.access
    if not isinstance(found, Access):
        raise HTTPException(404, "this console was started without tokens: there is nothing to log in to")
    return found


def local(to: str) -> str:
    """Where to go then: a path of this console, never an address elsewhere."""
    is_local = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_local and len(to) <= limits.LOGIN_BYTES_MAX else "/"


def page(request: Request, shown: dict[str, Any], status: int = 200) -> Response:
    view = View.of(request)
    return render.page(view, SCREEN, shown, status)


ROUTES = (
    Route(guard.LOGIN, show, methods=["GET"]),
    Route(guard.LOGIN, log_in, methods=["POST"]),
    Route(guard.LOGOUT, log_out, methods=["POST"]),
)
