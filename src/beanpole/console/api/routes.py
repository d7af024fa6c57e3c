"""From a request to an operation and back: what does not fit is refused in one sentence."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beanpole.console.actions.action import RefusedError
from beanpole.console.answers import HEADERS, problem, refusal_in
from beanpole.console.api.operations import PREFIX, Asked, Operation, Places
from beanpole.console.fields import Query
from beanpole.console.single_flight import AwayError
from beanpole.errors import BadFormatError, BeanpoleError, NotFoundError, ReplyError, RulesError, UnsupportedError

API_BODY_BYTES_MAX = 2_097_152
"""Bytes of the body of a request for the API: a hundred thousand ids, or the body of a job."""

JSON = "application/json"

SURROGATES = re.compile("[\ud800-\udfff]")
"""What stands for bytes that are no text."""

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (RefusedError, 409),
    (BadFormatError, 400),
    (RulesError, 400),
    (NotFoundError, 404),
    (UnsupportedError, 501),
    (ReplyError, 409),
    (AwayError, 503),
    (BeanpoleError, 503),
    (OSError, 503),
)
"""The status with which each kind of error is answered; the first that fits."""


class Api:
    """Answers everything below the prefix.

    The path is taken apart before its escapes are resolved, as a tube's name may hold a slash.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return  # nobody is there to read an answer
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            operation, places = self._found(request)
            asked = Asked(request, request.app.state.console, places)
            found = await operation.run(asked, **await given_of(operation, request))
        except HTTPException as error:
            return problem(error.status_code, error.detail, error.headers)
        except (BeanpoleError, OSError) as error:
            if refusal := refusal_in(error):
                return problem(403, refusal)
            status = next(status for kind, status in STATUSES if isinstance(error, kind))
            return problem(status, str(error) or type(error).__name__)
        return Response(encoded(operation.answer, found), headers=HEADERS, media_type=JSON)

    def _found(self, request: Request) -> tuple[Operation, Places]:
        """The operation of a request, and what stands in its path. Raises HTTPException."""
        raw = request.scope["raw_path"].decode("latin-1").removeprefix(PREFIX)
        segments = raw.split("/")[1:]
        there = [each for each in self._operations if fits(each, segments)]
        if not there:
            raise HTTPException(404, f"there is no {request.url.path}; /openapi.json says what there is")
        # A HEAD is a GET whose answer is not sent.
        method = "GET" if request.method == "HEAD" else request.method
        for each in there:
            if each.method == method:
                return each, places_of(each, segments)
        allowed = ", ".join(each.method for each in there)
        raise HTTPException(405, f"there is no {method} of this, but {allowed}", {"Allow": allowed})


def fits(operation: Operation, segments: Sequence[str]) -> bool:
    """Whether the parts of a path are those of an operation."""
    own = operation.segments
    return len(own) == len(segments) and all(
        place.startswith("{") or place == given for place, given in zip(own, segments, strict=True)
    )


def places_of(operation: Operation, segments: Sequence[str]) -> Places:
    with refusing("the path"):
        found = {
            place[1:-1]: unquote(given, errors="strict")
            for place, given in zip(operation.segments, segments, strict=True)
            if place.startswith("{")
        }
        return msgspec.convert(found, Places, strict=False)


async def given_of(operation: Operation, request: Request) -> dict[str, Struct]:
    given: dict[str, Struct] = {}
    with refusing("what stands behind ?"):
        query = request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
        if len(pairs) != len(dict(pairs)):
            raise ValueError("a parameter is given twice")
        found = msgspec.convert(dict(pairs), operation.query or Query, strict=False)
        if null := [name for name, _ in pairs if getattr(found, name) is None]:  # msgspec takes this text for None
            raise ValueError(f"Expected a value - at `$.{null[0]}`")
    if operation.query is not None:
        given["query"] = found
    if operation.body is not None:
        given["body"] = await body_of(operation.body, request)
    return given


async def body_of(kind: type[Struct], request: Request) -> Struct:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HTTPException(415, f"the body must be {JSON}")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > API_BODY_BYTES_MAX:
            raise HTTPException(413, f"the body must have at most {API_BODY_BYTES_MAX} bytes")
    with refusing("the body"):
        return msgspec.convert(changed(msgspec.json.decode(data), as_whole), kind)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Refuses what does not fit its type. Raises HTTPException."""
    try:
        yield
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise HTTPException(400, f"{what}: {error}") from None


def encoded(kind: Any, answer: object) -> bytes:  # noqa: ANN401 - a type
    """An answer as JSON. What is no text becomes a question mark in a diamond, as names and bodies are bytes."""
    made = msgspec.convert(answer, kind, from_attributes=True)
    try:
        return msgspec.json.encode(made)
    except UnicodeEncodeError:
        return msgspec.json.encode(changed(msgspec.to_builtins(made), as_text))


def as_text(value: object) -> object:
    """A value that can be sent, if it is a text."""
    return SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value


def as_whole(value: object) -> object:
    """A whole number without its point, if it is one: JSON Schema counts 1.0 as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def changed(value: Any, change: Callable[[object], object]) -> Any:  # noqa: ANN401 - JSON
    """JSON with all its names and values changed."""
    if isinstance(value, dict):
        return {change(name): changed(each, change) for name, each in value.items()}
    return [changed(each, change) for each in value] if isinstance(value, list) else change(value)
