"""The pages: what each path answers. Nothing here shows the body of a job or changes anything.

All of it comes from the samplers of one `Console`, so that scrapers and whoever looks at a page share samples.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from beanpole.console import exposition, limits
from beanpole.console.accept import takes_gzip, wants_openmetrics
from beanpole.console.errors import AwayError
from beanpole.console.exposition import Scraped
from beanpole.console.health import CHECKS
from beanpole.console.hosts import Hosts
from beanpole.console.legacy import legacy_lines
from beanpole.console.own import own_lines
from beanpole.console.sampler import Sampler
from beanpole.console.settings import Settings

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Console:
    """What all pages are made of."""

    settings: Settings
    samplers: dict[str, Sampler]
    """By the names of their servers, in the order of the command line."""

    def asked(self, request: Request) -> list[Sampler]:
        """The samplers of the servers that a request is about: all, or one.

        Raises HTTPException: there is none of that name.
        """
        name = request.query_params.get("server")
        if name is None:
            return list(self.samplers.values())
        if name not in self.samplers:
            raise HTTPException(404, f"no server is called {name!r} here; there are {', '.join(self.samplers)}")
        return [self.samplers[name]]


# --- /metrics ---------------------------------------------------------------------------------------------------------


async def metrics(request: Request) -> Response:
    """Everything for Prometheus, of all servers or of one."""
    console: Console = request.app.state.console
    samplers = console.asked(request)
    found = await asyncio.gather(*(scraped(each, labelled="server" not in request.query_params) for each in samplers))
    openmetrics = wants_openmetrics(request.headers.get("accept", ""))
    content = encoded(written(console, found, openmetrics=openmetrics))
    headers = HEADERS | {"Vary": "Accept, Accept-Encoding"}
    if takes_gzip(request.headers.get("accept-encoding", "")):
        content, headers["Content-Encoding"] = compressed(content), "gzip"
    kind = exposition.OPENMETRICS if openmetrics else exposition.TEXT
    return StreamingResponse(content, media_type=kind, headers=headers)


async def scraped(sampler: Sampler, *, labelled: bool) -> Scraped:
    """A server as a scrape finds it."""
    name, address = sampler.source.name if labelled else "", sampler.source.address_text
    try:
        return Scraped(name, address, await sampler.sample.get())
    except AwayError:
        return Scraped(name, address, None)


def written(console: Console, found: Sequence[Scraped], *, openmetrics: bool) -> Iterator[str]:
    """All lines of a scrape."""
    yield from exposition.lines_of(found, openmetrics=openmetrics)
    if console.settings.legacy:
        yield from legacy_lines(found, openmetrics=openmetrics)
    yield from own_lines(openmetrics=openmetrics)
    if openmetrics:
        yield "# EOF\n"


async def encoded(lines: Iterator[str]) -> AsyncIterator[bytes]:
    """The bytes, in slices between which other requests are served."""
    for piece in exposition.slices(lines):
        yield piece
        await asyncio.sleep(0)


async def compressed(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same in the format of gzip."""
    packer = zlib.compressobj(limits.GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    async for piece in content:
        yield packer.compress(piece)
    yield packer.flush()


# --- Checks -----------------------------------------------------------------------------------------------------------


async def check(request: Request) -> Response:
    """A line for each server; 200 if the check holds for all, else 503."""
    console: Console = request.app.state.console
    samplers, verdict = console.asked(request), CHECKS[request.url.path]

    async def of(sampler: Sampler) -> tuple[bool, str]:
        try:
            return verdict(await sampler.stats.get())
        except AwayError as error:
            return False, f"away: {error}"

    verdicts = await asyncio.gather(*map(of, samplers))
    text = "".join(f"{sampler.source.name}: {why}\n" for sampler, (_, why) in zip(samplers, verdicts, strict=True))
    return PlainTextResponse(text, 200 if all(holds for holds, _ in verdicts) else 503, HEADERS)


async def unknown(_: Request) -> Response:
    """Any other path: who opens the address in a browser reads what there is."""
    raise HTTPException(404, f"there are {', '.join(('/metrics', *CHECKS))}")


async def refused(_: Request, error: Exception) -> Response:
    """A mistake of a request, in a line."""
    assert isinstance(error, HTTPException), "it is registered for nothing else"
    return PlainTextResponse(f"{error.detail}\n", error.status_code, {**HEADERS, **(error.headers or {})})


def make_app(console: Console) -> Starlette:
    """Returns the application."""
    routes = [Route("/metrics", metrics), *(Route(path, check) for path in CHECKS), Route("/{path:path}", unknown)]
    hosts = Middleware(Hosts, names=console.settings.hosts)
    app = Starlette(routes=routes, middleware=[hosts], exception_handlers={HTTPException: refused})
    app.router.redirect_slashes = False
    app.state.console = console
    return app
