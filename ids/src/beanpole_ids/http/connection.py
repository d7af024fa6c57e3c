"""One HTTP connection: bytes become requests, one at a time, and responses bytes.

A connection has one request under way, and what has come is read when its turn comes (`turns`); the rest stays with the
kernel. The cost of a client is bounded: a head or body that is too large, a request that does not end, an answer that
is not read, and a connection too many are all cut off.
"""

import asyncio
from array import array
from fcntl import ioctl
from functools import partial
from http import HTTPStatus
from termios import TIOCOUTQ
from typing import TYPE_CHECKING

from beanpole_ids import limits
from beanpole_ids.http.head import CHUNKED, Asked, Chunks, Fields, HeadError
from beanpole_ids.http.response import Response, problem
from beanpole_ids.http.routes import ALWAYS

if TYPE_CHECKING:
    from beanpole_ids.http.server import Server

END = b"\r\n\r\n"
"""The end of a head."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

HEADS: dict[tuple[int, str], bytes] = {}
"""How a response begins that has no fields of its own, up to its length."""


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: "Server", source: str) -> None:
        self.server = server
        self.source = source
        """The client's IP address."""

        self.ordinal = 0
        """How many connections there were before it."""

        self.group = b""
        """What is limited, and has its turn: the address, or the network that a client of IPv6 has for itself."""

        self.is_extra = False
        """Whether there were too many connections when it came: it gets one answer, and only from some paths."""

        self.is_used = False
        """Whether it has brought a request that was whole."""

        self.owes = False
        """Whether an answer is owed."""

        self.since_s = 0.0
        """Since when it waits for its client, in the loop's seconds."""

        self.until_s = 0.0
        """When it is cut off unless something happens."""

        self._rest = b""
        """What has come and is not part of a request that has been read."""

        self._has_begun = False
        """Whether a part of a head has come."""

        self._head: tuple[str, str, Fields] | None = None
        """The method, the target and the fields of the request whose body is awaited."""

        self._chunks: Chunks | None = None
        """What reads its body, if it comes in chunks."""

        self._number = 0
        """The number of the request, by which a late answer to an earlier one is recognized."""

        self._is_head = False
        """Whether the request wants no body in its answer."""

        self._keeps = True
        """Whether another request may follow this one."""

        self._queued = False
        """Whether it waits for its turn."""

        self._full = False
        """Whether the client does not read its answers."""

        self._paused = False
        """Whether nothing is read from the kernel."""

        self._closing = False
        self._ended = False
        """Whether the client sends nothing more."""

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write"), "a stream"
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # uvloop's has no common base
        self._await_client(self.server.head_s)
        self.server.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever the reason
        """Forget a connection; an answer that is owed to it goes nowhere."""
        self._closing, self.owes = True, False
        self.server.forget(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those after the last answer are ignored."""
        if not self._closing:
            self._rest = self._rest + data if self._rest else data
            if len(self._rest) > limits.HTTP_HEAD_BYTES_MAX:
                self._pause()
            self._queue()

    def eof_received(self) -> bool:
        """The client sends no more; what it has asked for is still answered."""
        self._ended = True
        self._queue()
        return not self._closing

    def pause_writing(self) -> None:
        """Serve and read no more while answers are not read."""
        self._full = True
        self._pause()

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        self._queue()

    # --- Requests -----------------------------------------------------------------------------------------------------

    def _queue(self) -> None:
        """Let what has come wait for its turn."""
        if not (self._queued or self.owes or self._full or self._closing):
            self._queued = True
            self.server.requests.add(self.group, self.ordinal, self)

    def take_turn(self) -> None:
        """Serve one request of what has come, if it is whole."""
        self._queued = False
        if self._closing or self._full:
            return
        try:
            asked = self._next()
        except HeadError as error:
            self._refuse(error.problem, str(error))
            return
        if asked is not None:
            self._serve(asked)
        elif self.server.stopping:
            self.stop()
        elif not self._ended:
            self._resume()
        elif self._rest or self._head is not None:
            self._refuse("bad-request", "the request has no end")
        else:
            self._end()

    def _next(self) -> Asked | None:
        """Return the next request if it is whole.

        Raises HeadError: it makes no sense.
        """
        head = self._head or self._next_head()
        if head is None:
            return None
        method, target, fields = head
        body = self._next_body(fields.length) if fields.length else b""
        if body is None:
            return None
        self._head = self._chunks = None
        self._has_begun = False
        return Asked(method, target, fields, body, self.source)

    def _next_head(self) -> tuple[str, str, Fields] | None:
        """Return the next head if it is whole.

        Raises HeadError: see `_next`.
        """
        rest = self._rest
        if rest[:1] in {b"\r", b"\n"}:  # some clients send an empty line after a body
            rest = self._rest = rest.lstrip(b"\r\n")
        end = rest.find(END, 0, limits.HTTP_HEAD_BYTES_MAX)
        if end < 0:
            if len(rest) >= limits.HTTP_HEAD_BYTES_MAX:
                raise HeadError("the first line and the fields are too large", "long-head")
            if rest and not self._has_begun:
                self._has_begun = True
                if self.is_used:
                    self._await_client(self.server.head_s)
            return None
        end += len(END)
        head = self.server.heads.read(rest[:end])
        fields = head[2]
        self._rest, self._is_head, self._keeps = rest[end:], head[0] == "HEAD", fields.keeps
        if fields.length:
            if fields.length > limits.HTTP_HEAD_BYTES_MAX:
                raise HeadError("the body is too large", "too-large")
            self._head, self._chunks = head, Chunks() if fields.length == CHUNKED else None
            self._await_client(self.server.timeout_s)
            if fields.expects and not self._rest:
                self._transport.write(CONTINUE)
        return head

    def _next_body(self, length: int) -> bytes | None:
        """Return the body of a request if it is whole.

        Raises HeadError: see `_next`.
        """
        rest = self._rest
        if self._chunks is not None:
            self._rest = b""
            return self._chunks.feed(rest)
        if len(rest) < length:
            return None
        self._rest = rest[length:]
        return rest[:length]

    def _serve(self, asked: Asked) -> None:
        """Let a request be answered, now or later."""
        self.owes = self.is_used = True
        self._number += 1
        if self.is_extra:
            self._keeps = False
            if asked.target not in ALWAYS:
                self._respond(problem("busy", "there are too many connections"))
                return
        self.server.routes.handle(asked, partial(self._answer, self._number))
        if self.owes:
            self.until_s = self.server.time() + self.server.timeout_s
            self._pause()

    def _answer(self, number: int, response: Response) -> None:
        """Answer the request of a number, unless it has been answered or the client is gone."""
        if self.owes and number == self._number:
            self._respond(response)

    def _refuse(self, name: str, detail: str) -> None:
        """Answer with a problem, and end."""
        self._keeps = False
        self._respond(problem(name, detail))

    def _respond(self, response: Response) -> None:
        """Send a response, then go on with the next request or end."""
        keeps = self._keeps and not self.server.stopping
        self.owes = False
        if not self._transport.is_closing():
            self._transport.write(render(response, keeps=keeps, has_body=not self._is_head))
        if not keeps or (self._ended and not self._rest):
            self._end()
            return
        self._await_client(self.server.timeout_s)
        if self._rest:
            self._pause()
            self._queue()
        elif self._paused:
            self._resume()

    # --- Waiting and ends ---------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """Read nothing from the kernel."""
        if not self._paused and not self._ended and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Read again."""
        if self._paused and not self._full and not self._ended and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _await_client(self, seconds: float) -> None:
        """Wait for the client, for so long."""
        self.since_s = self.server.time()
        self.until_s = self.since_s + seconds

    @property
    def awaits_client(self) -> bool:
        """Whether no answer is owed, and nothing that has come waits for its turn."""
        return self._closing or not (self.owes or self._queued)

    def expire(self) -> None:
        """Nothing has happened in time."""
        if self._closing or self._full:
            self.abort()
        elif self.owes:
            self._refuse("storage", "no answer in time; a number may be spent")
        elif self._queued:
            pass  # what has come may be whole: its turn shows it
        elif self._rest or self._head is not None:
            self._refuse("late", "the request did not come whole in time")
        else:
            self._end()

    def _end(self) -> None:
        """Send what is written, then an end, and wait for the client's: closed at once, it could lose the answer."""
        if self._closing:
            return
        self._closing, self._rest = True, b""
        self._await_client(limits.HTTP_STOP_MS / 1000)
        if self._ended:
            self._transport.close()
        elif not self._transport.is_closing():
            self._full = False
            self._resume()
            self._transport.write_eof()

    def abort(self) -> None:
        """End the connection, whatever is not sent."""
        self._closing, self.owes = True, False
        self._transport.abort()

    def stop(self) -> None:
        """End the connection, after the answer if one is owed; at once if the client's machine has all answers.

        One on which something has come, which may be a request, ends in its turn.
        """
        if not self.awaits_client:
            return
        if self.has_sent_all():
            self._closing = True
            self._transport.close()
        else:
            self._end()

    def has_sent_all(self) -> bool:
        """Whether the client's machine has confirmed all that was written."""
        if self._transport.is_closing() or self._transport.get_write_buffer_size():
            return False
        waiting = array("i", [0])
        ioctl(self._transport.get_extra_info("socket").fileno(), TIOCOUTQ, waiting)  # SIOCOUTQ of a socket
        return not waiting[0]

    def give_up(self) -> None:
        """End the connection now; a request that still waits, also for its turn, gets an error."""
        if not self.awaits_client:
            self._refuse("storage", "stopping")
        self._end()


def render(response: Response, *, keeps: bool, has_body: bool) -> bytes:
    """Return the bytes of a response. `keeps`: the connection goes on; `has_body`: not only its head is sent."""
    if response.fields or not keeps:
        begin = begin_of(response.status, response.kind, response.fields, keeps=keeps)
    else:
        key = (response.status, response.kind)
        begin = HEADS.get(key) or HEADS.setdefault(key, begin_of(*key))
    body = response.body
    return b"%b%d\r\n\r\n%b" % (begin, len(body), body if has_body else b"")


def begin_of(status: int, kind: str, fields: tuple[tuple[str, str], ...] = (), *, keeps: bool = True) -> bytes:
    """Return the head of a response, up to the length of its body."""
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in fields),
        *(() if keeps else ("Connection: close",)),
        "Content-Length: ",
    ]
    return "\r\n".join(lines).encode("ascii", "replace")
