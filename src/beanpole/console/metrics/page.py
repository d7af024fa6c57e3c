"""The page `/metrics`: all that is known of the servers, as Prometheus reads it."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence

from prometheus_client import ProcessCollector
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from beanpole.console.answers import HEADERS
from beanpole.console.metrics import exposition
from beanpole.console.metrics.exposition import Scraped, escaped, head, line
from beanpole.console.metrics.families import Kind, number
from beanpole.console.metrics.metered import count_of
from beanpole.console.servers import Console, Server
from beanpole.console.single_flight import AwayError

# --- What a client takes (RFC 9110, 12.5) -----------------------------------------------------------------------------


def preferences(header: str) -> Iterator[tuple[str, float]]:
    """The entries of an Accept or Accept-Encoding header, in small letters, with their weights."""
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    weight = float(value)
                except ValueError:
                    weight = 0.0
        if name:
            yield name, weight


def wants_openmetrics(header: str) -> bool:
    """Whether a client would rather have OpenMetrics than the classic text: it must name it, and above other text."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for name, weight in preferences(header):
        if name in best:
            best[name] = max(best[name], weight)
    return best["application/openmetrics-text"] > 0 and best["application/openmetrics-text"] >= best["text/plain"]


def takes_gzip(header: str) -> bool:
    weights = dict(preferences(header))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


# --- ``--legacy-metrics`` ---------------------------------------------------------------------------------------------

SERVER_KEYS = (
    "current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed",
    "current-jobs-buried", "cmd-put", "cmd-peek", "cmd-peek-ready", "cmd-peek-delayed", "cmd-peek-buried",
    "cmd-reserve", "cmd-reserve-with-timeout", "cmd-touch", "cmd-use", "cmd-watch", "cmd-ignore", "cmd-delete",
    "cmd-release", "cmd-bury", "cmd-kick", "cmd-stats", "cmd-stats-job", "cmd-stats-tube", "cmd-list-tubes",
    "cmd-list-tube-used", "cmd-list-tubes-watched", "cmd-pause-tube", "job-timeouts", "total-jobs", "max-job-size",
    "current-tubes", "current-connections", "current-producers", "current-workers", "current-waiting",
    "total-connections", "rusage-utime", "rusage-stime", "uptime", "binlog-oldest-index", "binlog-current-index",
    "binlog-max-size", "binlog-records-written", "binlog-records-migrated", "draining",
)  # fmt: skip

TUBE_KEYS = (
    "current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed",
    "current-jobs-buried", "total-jobs", "current-using", "current-waiting", "current-watching", "pause",
    "cmd-delete", "cmd-pause-tube", "pause-time-left",
)  # fmt: skip


def legacy_lines(servers: Sequence[Scraped], *, openmetrics: bool) -> Iterator[str]:
    """The metrics that messagebird/beanstalkd_exporter has, for boards that were made for it.

    Each is a gauge named after the server's key; the labels are `instance`, the server's address, and `tube`. What the
    exporter makes of keys that are no numbers is left out: it says nothing.
    """
    there = [(server, server.sample) for server in servers if server.sample is not None and server.sample.leads]
    for key in SERVER_KEYS:
        name = key.replace("-", "_")
        values = [(server, number(sample.stats, key)) for server, sample in there]
        if values:
            yield head(name, Kind.GAUGE, f"{key} in stats.", openmetrics=openmetrics)
            yield from (line(name, (instance(server),), value) for server, value in values if value is not None)
    for key in TUBE_KEYS:
        name = "tube_" + key.replace("-", "_")
        if there:
            yield head(name, Kind.GAUGE, f"{key} in stats-tube.", openmetrics=openmetrics)
        for server, sample in there:
            for tube in sample.named.values():
                yield line(name, (instance(server), f'tube="{escaped(tube.name)}"'), count_of(tube.raw, key))


def instance(server: Scraped) -> str:
    return f'instance="{escaped(server.address)}"'


# --- The process ------------------------------------------------------------------------------------------------------

COLLECTOR = ProcessCollector(registry=None)


def own_lines(*, openmetrics: bool) -> Iterator[str]:
    for metric in COLLECTOR.collect():
        yield head(metric.name, Kind(metric.type), metric.documentation, openmetrics=openmetrics)
        for sample in metric.samples:
            yield line(sample.name, (), sample.value)


# --- The page ---------------------------------------------------------------------------------------------------------

GZIP_LEVEL = 6  # how hard to compress: a scrape of 1 000 tubes becomes a fifteenth, within 20 ms


async def metrics(request: Request) -> Response:
    console: Console = request.app.state.console
    servers = console.asked(request)
    if len(servers) > 1:  # what a map has is the sum of its shards, which are there too
        servers = [each for each in servers if each.source.places is None]
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
    name, address = server.name if labelled else "", server.source.address_text
    try:
        await server.sampler.sample.get()
    except AwayError:
        return Scraped(name, address, None)
    return Scraped(name, address, server.meter.metered)


def written(console: Console, found: Sequence[Scraped], *, openmetrics: bool) -> Iterator[str]:
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
    packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    async for piece in content:
        yield packer.compress(piece)
    yield packer.flush()


ROUTES = (Route("/metrics", metrics),)
