"""The application: which path is answered by whom, and what every request goes through."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from beanpole.console import health
from beanpole.console.api import table as api
from beanpole.console.metrics import page as metrics
from beanpole.console.screens import login, render
from beanpole.console.screens import table as screens
from beanpole.console.security.access import Access
from beanpole.console.security.guard import OPEN, Guard, Hosts, SafeAnswers
from beanpole.console.security.users import Users
from beanpole.console.servers import Console
from beanpole.console.single_flight import AwayError
from beanpole.errors import ForbiddenError

ROUTES = (*metrics.ROUTES, *health.ROUTES, *render.ROUTES, *login.ROUTES, *screens.ROUTES, *api.ROUTES)


async def unknown(request: Request) -> Response:
    raise HTTPException(
        404, f"There is no {request.url.path}; there are {', '.join(sorted(OPEN))}, and pages, which begin at /."
    )


def make_app(console: Console, users: Users | None = None) -> ASGIApp:
    settings = console.settings
    access = None
    if settings.token_file or users:
        access = Access(settings.token_file, console.logger, console.clock, users)
    app = Starlette(
        routes=[*ROUTES, Route("/{path:path}", unknown)],
        middleware=[
            Middleware(Hosts, names=settings.hosts),
            Middleware(Guard, access, is_reached=settings.is_reached, refuse=render.error_answer),
        ],
        exception_handlers=dict.fromkeys((HTTPException, AwayError, ForbiddenError, OSError), render.error_answer),
    )
    app.router.redirect_slashes = False
    app.state.console = console
    app.state.screens = screens.SCREENS
    app.state.access = access
    return SafeAnswers(app)
