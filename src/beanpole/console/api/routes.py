"""From a request to an operation and back: what does not fit is refused in one sentence."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beanpole.client.errors import NotFoundError, UnsupportedError
from beanpole.console import limits
from beanpole.console.actions.action import RefusedError
from beanpole.console.answers import HEADERS
from beanpole.console.api.kinds import fields_of
from beanpole.console.api.operations import PLACES, PREFIX, Asked, Operation
from beanpole.console.api.values import WrongError, checked, from_text, plain
from beanpole.console.errors import AwayError
from beanpole.console.problems import problem
from beanpole.errors import BadFormatError, BeanpoleError, ReplyError, RulesError

JSON = "application/json"

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (WrongError, 400),
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
        """Answers a request."""
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
            shown = plain(await operation.run(asked, **await given_of(operation, request)))
        except HTTPException as error:
            return problem(error.status_code, error.detail, error.headers)
        except (WrongError, BeanpoleError, OSError) as error:
            status = next(status for kind, status in STATUSES if isinstance(error, kind))
            return problem(status, str(error) or type(error).__name__)
        return Response(json.dumps(shown, ensure_ascii=False), headers=HEADERS, media_type=JSON)

    def _found(self, request: Request) -> tuple[Operation, dict[str, Any]]:
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


def places_of(operation: Operation, segments: Sequence[str]) -> dict[str, Any]:
    """What stands in a path. Raises WrongError."""
    found = {}
    for place, given in zip(operation.segments, segments, strict=True):
        if place.startswith("{"):
            try:
                text = unquote(given, errors="strict")
            except UnicodeDecodeError:
                raise WrongError(f"{place[1:-1]} must be text in UTF-8") from None
            found[place[1:-1]] = from_text(PLACES[place[1:-1]], text, place[1:-1])
    return found


async def given_of(operation: Operation, request: Request) -> dict[str, object]:
    """What came, checked. Raises HTTPException and WrongError."""
    query = query_of(operation, request)
    given = {} if operation.query is None else {"query": query}
    if operation.body is not None:
        given["body"] = await body_of(operation, request)
    return given


def query_of(operation: Operation, request: Request) -> object:
    """What stands behind the question mark, as the operation's dataclass. Raises WrongError."""
    there = {} if operation.query is None else fields_of(operation.query)
    given: dict[str, object] = {}
    for name, text in pairs(request.scope["query_string"]):
        if name not in there:
            known = f"there are {', '.join(there)}" if there else "there are none"
            raise WrongError(f"there is no parameter {name[:60]!r}; {known}")
        if name in given:
            raise WrongError(f"{name} is given twice")
        given[name] = from_text(there[name], text, name)
    return operation.query(**given) if operation.query else None


def pairs(query: bytes) -> Iterable[tuple[str, str]]:
    """The parameters of an address. Raises WrongError."""
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise WrongError("what stands behind ? must be text in UTF-8, at most 100 parameters") from None


async def body_of(operation: Operation, request: Request) -> object:
    """The body of a request, as the operation's dataclass. Raises HTTPException and WrongError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise HTTPException(415, f"the body must be {JSON}")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > limits.API_BODY_BYTES_MAX:
            raise HTTPException(413, f"the body must have at most {limits.API_BODY_BYTES_MAX} bytes")
    try:
        value = json.loads(bytes(data), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise WrongError("the body is no JSON") from None
    return checked(operation.body, value, "the body")


def refuse_constant(name: str) -> object:
    """NaN and Infinity are no JSON, though Python takes them for it."""
    raise ValueError(name)
