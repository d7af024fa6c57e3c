"""Answers that go on: live pages as server-sent events, and whole lists as JSON lines.

What a browser has open is sent again whenever there is something new. A state is small and whole. While a browser does
not take one, no other is made for it, so that it then gets the newest; the HTTP server drops who takes nothing at all.
Each stream makes its states itself, a second apart or more.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from beanpole.client import JobInfo
from beanpole.console.answers import HEADERS, Streamed
from beanpole.console.sampler import Sampler
from beanpole.console.single_flight import AwayError
from beanpole.errors import BeanpoleError, ConnectionLostError

# --- Live pages -------------------------------------------------------------------------------------------------------

STREAMS_MAX = 100  # pages that are live at a time

STREAM_BEAT_S = 15
"""Seconds without news after which a live page hears that the console is there: proxies close what is silent for 30."""

STREAM_PATIENCE_S = 2  # seconds after which a live page says that the server does not answer; what it has asked goes on
STREAM_LIFE_S = 60  # seconds after which a live page must ask again, so that one whose token has gone does not go on

MEDIA_TYPE = "text/event-stream"

BEAT = b": beat\n\n"  # a comment: proxies close what is silent, and browsers notice by it that nobody is there any more

Make = Callable[[], Awaitable[dict[str, str]]]
"""Makes the state: the blocks of a page by name."""


@dataclass(slots=True)
class Streams:
    """How many there are."""

    most: int = STREAMS_MAX
    count: int = 0

    def check(self) -> None:
        """Raises HTTPException: there are as many as there may be."""
        if self.count >= self.most:
            text = f"{self.most} pages are live already: close some, or load this one again by hand"
            raise HTTPException(503, text, {"Retry-After": "10"})


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen, in seconds."""

    every_s: float = 1  # between two states, at least
    beat_s: float = STREAM_BEAT_S  # without a state, until a beat
    life_s: float = STREAM_LIFE_S
    """Until the stream ends, and the browser opens another: so it is checked again who looks."""


class States:
    """The states of one page, each of which is sent once."""

    def __init__(self, make: Make, unix_s: Callable[[], float]) -> None:
        self._make, self._unix_s = make, unix_s
        self._making: asyncio.Future[dict[str, str]] | None = None
        self._last = 0  # what was sent last, as a number

    async def news(self) -> bytes:
        """The state, if it is not the last that was sent."""
        event, about = await self._state()
        text = json.dumps(about, separators=(",", ":"))
        if hash(text) == self._last:
            return b""
        self._last = hash(text)
        return f'event: {event}\ndata: {{"at":{self._unix_s():.3f},{text[1:]}\n\n'.encode()

    async def _state(self) -> tuple[str, dict[str, Any]]:
        if self._making is None:
            self._making = asyncio.ensure_future(self._make())
        await asyncio.wait({self._making}, timeout=STREAM_PATIENCE_S)
        if not self._making.done():  # what it waits for goes on, and is asked for no second time
            return "away", {"reason": f"no answer within {STREAM_PATIENCE_S} s"}
        made, self._making = self._making, None
        try:
            return "state", {"blocks": made.result()}
        except HTTPException as error:
            return "away", {"reason": error.detail}
        except (BeanpoleError, OSError) as error:
            return "away", {"reason": str(error) or type(error).__name__}

    def stop(self) -> None:
        if self._making is not None:
            self._making.cancel()


async def events(streams: Streams, samplers: Sequence[Sampler], states: States, pace: Pace) -> AsyncGenerator[bytes]:
    """What a browser is sent, until it goes or the time of the stream is over."""
    loop, bell = asyncio.get_running_loop(), asyncio.Event()
    end_at, beat_at = loop.time() + pace.life_s, loop.time()
    streams.count += 1
    try:
        with ExitStack() as stack:
            for each in samplers:
                stack.enter_context(each.watch(bell))
            while loop.time() < end_at:
                bell.clear()
                data = await states.news() or (BEAT if loop.time() >= beat_at else b"")
                if data:
                    yield data
                    beat_at = loop.time() + pace.beat_s
                del data  # it is large, and what follows takes long
                await asyncio.sleep(pace.every_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(beat_at):
                        await bell.wait()
    finally:
        streams.count -= 1
        states.stop()


def event_stream(
    streams: Streams, samplers: Sequence[Sampler], make: Make, unix_s: Callable[[], float], pace: Pace
) -> Streamed:
    """The answer to a browser that wants a page to be live."""
    headers = HEADERS | {"X-Accel-Buffering": "no"}
    return Streamed(events(streams, samplers, States(make, unix_s), pace), headers=headers, media_type=MEDIA_TYPE)


# --- Lists as files ---------------------------------------------------------------------------------------------------

Record = Mapping[str, object]

Pieces = AsyncGenerator[Iterable[Record], None]
"""The lines of a list, some at a time: a piece is what takes a few milliseconds to write."""

LINES_TYPE = "application/x-ndjson"


async def exported(pieces: Pieces, name: str) -> Streamed:
    """Answers with a list as the file `name`, as fast as the client reads.

    What is wrong before the first line is raised, and is an answer of its own; what ends the list in its middle is its
    last line, with an `error` alone in it.
    """
    start = await anext(pieces, None) or []
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Streamed(written(start, pieces), headers=headers, media_type=LINES_TYPE)


async def written(start: Iterable[Record], pieces: Pieces) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        yield lines_of(start)
        try:
            async for piece in pieces:
                yield lines_of(piece)
        except (AwayError, ConnectionLostError, OSError) as error:
            yield lines_of([{"error": f"the list ends here: {error}"}])


def lines_of(records: Iterable[Record]) -> bytes:
    """Records as lines; all that is not ASCII is escaped, so that half characters are no trouble."""
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def record_of(job: JobInfo, *, body: bool) -> dict[str, Any]:
    """What is known of a job, as `beanpole list --json` and `beanpole export` have it."""
    known = {name: value for name, value in job.as_dict().items() if value is not None and name != "body"}
    return known | (body_fields(job.body) if body else {})


def body_fields(body: bytes) -> dict[str, str]:
    """A body for JSON: as `body` if it is UTF-8, else as `body_base64`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
