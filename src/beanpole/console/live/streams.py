"""Live pages: what a browser has open is sent again, as server-sent events, whenever there is something new.

A state is small and whole. While a browser does not take one, no other is made for it, so that it then gets the newest;
the HTTP server drops who takes nothing at all. Each stream makes its states itself, a second apart or more.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beanpole.console import limits
from beanpole.console.answers import HEADERS
from beanpole.console.sampler import Sampler
from beanpole.errors import BeanpoleError

MEDIA_TYPE = "text/event-stream"

BEAT = b": beat\n\n"
"""A comment: proxies close what is silent, and browsers notice by it that nobody is there any more."""

Make = Callable[[], Awaitable[dict[str, str]]]
"""Makes the state: the blocks of a page by name."""


@dataclass(slots=True)
class Streams:
    """How many there are."""

    most: int = limits.STREAMS_MAX
    count: int = 0

    def check(self) -> None:
        """Raises HTTPException: there are as many as there may be."""
        if self.count >= self.most:
            text = f"{self.most} pages are live already: close some, or load this one again by hand"
            raise HTTPException(503, text, {"Retry-After": "10"})


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen, in seconds."""

    every_s: float = 1
    """Between two states, at least."""

    beat_s: float = limits.STREAM_BEAT_S
    """Without a state, until a beat."""

    life_s: float = limits.STREAM_LIFE_S
    """Until the stream ends, and the browser opens another: so it is checked again who looks."""


class Stream(Response):
    """The answer to a browser that wants a page to be live."""

    def __init__(
        self, streams: Streams, samplers: Sequence[Sampler], make: Make, unix_s: Callable[[], float], pace: Pace
    ) -> None:
        super().__init__(None, 200, HEADERS | {"X-Accel-Buffering": "no"}, MEDIA_TYPE)
        del self.headers["content-length"]
        self._making: asyncio.Future[dict[str, str]] | None = None
        self._last = 0
        """What was sent last, as a number."""
        self._streams, self._samplers, self._make, self._unix_s, self._pace = streams, samplers, make, unix_s, pace

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Sends states until the browser goes, or the console stops."""
        bell = asyncio.Event()
        self._streams.count += 1
        try:
            with ExitStack() as stack:
                for each in self._samplers:
                    stack.enter_context(each.watch(bell))
                await self._serve(bell, receive, send)
        finally:
            self._streams.count -= 1

    async def _serve(self, bell: asyncio.Event, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        tasks = {asyncio.ensure_future(until_gone(receive)), asyncio.ensure_future(self._send_all(bell, send))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending: list[asyncio.Future[Any]] = [*tasks, *filter(None, [self._making])]
            for each in ending:
                each.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()  # a fault of ours is seen
        await send({"type": "http.response.body", "body": b""})

    async def _send_all(self, bell: asyncio.Event, send: Send) -> None:
        loop = asyncio.get_running_loop()
        end_at, beat_at = loop.time() + self._pace.life_s, loop.time()
        while loop.time() < end_at:
            bell.clear()
            data = await self._news() or (BEAT if loop.time() >= beat_at else b"")
            if data:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                beat_at = loop.time() + self._pace.beat_s
            del data  # it is large, and what follows takes long
            await asyncio.sleep(self._pace.every_s)
            try:
                async with asyncio.timeout_at(beat_at):
                    await bell.wait()
            except TimeoutError:
                continue

    async def _news(self) -> bytes:
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
        await asyncio.wait({self._making}, timeout=limits.STREAM_PATIENCE_S)
        if not self._making.done():  # what it waits for goes on, and is asked for no second time
            return "away", {"reason": f"no answer within {limits.STREAM_PATIENCE_S} s"}
        made, self._making = self._making, None
        try:
            return "state", {"blocks": made.result()}
        except HTTPException as error:
            return "away", {"reason": error.detail}
        except (BeanpoleError, OSError) as error:
            return "away", {"reason": str(error) or type(error).__name__}


async def until_gone(receive: Receive) -> None:
    """Returns when the browser has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
