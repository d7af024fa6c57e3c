"""The page `/metrics`: all that is known of the servers, as Prometheus reads it."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from beanpole.console.answers import HEADERS
from beanpole.console.errors import AwayError
from beanpole.console.metrics import exposition
from beanpole.console.metrics.accept import takes_gzip, wants_openmetrics
from beanpole.console.metrics.exposition import Scraped
from beanpole.console.metrics.legacy import legacy_lines
from beanpole.console.metrics.own import own_lines
from beanpole.console.servers import Console, Server

GZIP_LEVEL = 6
"""How hard to compress: a scrape of 1 000 tubes becomes a fifteenth, within 20 ms."""


async def metrics(request: Request) -> Response:
    """Everything for Prometheus, of all servers or of one."""
    console: Console = request.app.state.console
    servers = console.asked(request)
    labelled = "server" not in request.query_params
    found = await asyncio.gather(*(scraped(each, labelled=labelled) for each in servers))
    openmetrics = wants_openmetrics(request.headers.get("accept", ""))
    content = encoded(written(console, found, openmetrics=openmetrics))
    headers = HEADERS | {"Vary": "Accept, Accept-Encoding"}
    if takes_gzip(request.headers.get("accept-encoding", "")):
        content, headers["Content-Encoding"] = compressed(content), "gzip"
    kind = exposition.OPENMETRICS if openmetrics else exposition.TEXT
    return StreamingResponse(content, media_type=kind, headers=headers)


async def scraped(server: Server, *, labelled: bool) -> Scraped:
    """A server as a scrape finds it."""
    name, address = server.name if labelled else "", server.source.address_text
    try:
        await server.sampler.sample.get()
    except AwayError:
        return Scraped(name, address, None)
    return Scraped(name, address, server.meter.metered)


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
    packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    async for piece in content:
        yield packer.compress(piece)
    yield packer.flush()


ROUTES = (Route("/metrics", metrics),)
