"""All screens, and the routes to them."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from beanpole.console.answers import keep_open
from beanpole.console.screens import (
    actions,
    examples,
    failures,
    jobs,
    overview,
    render,
    rules,
    schedules,
    servers,
    sessions,
    tubes,
)
from beanpole.console.screens.links import ENDING
from beanpole.console.screens.screen import Screen, View
from beanpole.console.streams import MEDIA_TYPE, Pace, Streams, event_stream, exported

SCREENS: tuple[Screen, ...] = (
    overview.SCREEN,
    tubes.SCREEN,
    tubes.TUBE,
    jobs.SCREEN,
    jobs.JOB,
    failures.SCREEN,
    sessions.BUSY,
    sessions.SCREEN,
    rules.SCREEN,
    schedules.SCREEN,
    schedules.SCHEDULE,
    servers.SCREEN,
    actions.RUNS,
    actions.RUN,
    actions.PUT,
    examples.SCREEN,
)
"""In the order of the navigation."""


def answer(screen: Screen) -> Callable[[Request], Awaitable[Response]]:
    async def shown(request: Request) -> Response:
        view = View.of(request)
        if screen.live and request.method == "GET" and MEDIA_TYPE in request.headers.get("accept", ""):
            return stream(view, screen)
        return render.page(view, screen, await screen.show(view))

    return shown


def stream(view: View, screen: Screen) -> Response:
    """The live blocks of a screen, again and again. Raises HTTPException: there are too many streams."""
    streams = view.console.kept(Streams)
    streams.check()
    keep_open(view.request)

    async def make() -> dict[str, str]:
        return render.blocks(view, screen, await screen.show(view), screen.live)

    samplers = [each.sampler for each in view.servers]
    return event_stream(streams, samplers, make, view.console.clock.unix_s, Pace(screen.every_s))


def lines(screen: Screen) -> Callable[[Request], Awaitable[Response]]:
    async def written(request: Request) -> Response:
        assert screen.lines is not None, "it has a route"
        view = View.of(request)
        keep_open(request)
        return await exported(screen.lines(view), f"{screen.path.rpartition('/')[2]}{ENDING}")

    return written


ROUTES = (
    *actions.ROUTES,
    *(Route(screen.path, answer(screen)) for screen in SCREENS),
    *(Route(screen.path + ENDING, lines(screen)) for screen in SCREENS if screen.lines),
    *jobs.ROUTES,
)
