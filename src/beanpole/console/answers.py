"""What all answers have in common, and how a mistake is said."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Send

from beanpole.errors import ForbiddenError

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Streamed(StreamingResponse):
    """An answer that is sent piece by piece. However it ends, what makes the pieces ends with it."""

    async def stream_response(self, send: Send) -> None:
        assert isinstance(self.body_iterator, AsyncGenerator), "it is made of one"
        async with aclosing(self.body_iterator):
            await super().stream_response(send)


def line(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """A mistake of a request, in a line."""
    return PlainTextResponse(f"{sentence}\n", status, {**HEADERS, **(headers or {})})


def keep_open(request: Request) -> None:
    """Lets an answer go on for as long as its client takes what is sent: it is a stream of what happens."""
    request.state.is_stream = True


@contextmanager
def idling(request: Request) -> Iterator[None]:
    """Within it, the connection of a request may be closed in favour of a new one, where there are too many."""
    request.state.is_idle = True
    yield
    request.state.is_idle = False


def is_https(request: Request) -> bool:
    """Whether the browser has asked over TLS, which ends at a proxy before the console."""
    return request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower() == "https"


def refusal_in(error: BaseException | None) -> str:
    """Which right the console's user lacks, if that is the error, or what has caused it; else nothing."""
    while error is not None and not isinstance(error, ForbiddenError):
        error = error.__cause__
    if error is None:
        return ""
    if error.right == "stats":
        return "the console's user on this server needs stats = true"
    return f"the console's user on this server lacks the right {error.right} on {error.tube}"


PROBLEM_TYPE = "application/problem+json"


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A mistake of a request or a fault of a server, as JSON (RFC 9457): what asks for data gets no page."""
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    text = json.dumps(said)
    return Response(text, status, {**HEADERS, **(headers or {})}, PROBLEM_TYPE)
