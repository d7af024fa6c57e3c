"""From a request to an operation and back."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.types import Message

from beanpole.console import fields
from beanpole.console.answers import PROBLEM_TYPE
from beanpole.console.api.operations import Asked, Operation
from beanpole.console.api.routes import API_BODY_BYTES_MAX, Api
from beanpole.console.single_flight import AwayError
from beanpole.errors import NotFoundError


class Query(fields.Query, frozen=True):
    """What may be asked."""

    limit: Annotated[int, Meta(ge=1, le=9)] = 1
    flag: bool | None = None


class Sent(fields.Query, frozen=True):
    """What may be sent."""

    word: str
    count: int = 1


async def get_tube(asked: Asked, query: Query) -> dict[str, Any]:
    """A tube."""
    return {"tube": asked.places.tube, "limit": query.limit}


async def get_job(asked: Asked) -> None:
    """A job, which is never there."""
    raise NotFoundError(f"there is no job {asked.places.id}")


async def get_server(asked: Asked) -> None:
    """A server, which is always away."""
    raise AwayError(f"{asked.places.server} is away")


@dataclass(frozen=True)
class Known:
    """What is known inside."""

    seconds: float
    names: Mapping[str, int]
    secret: bytes = b"x"
    notes: tuple[str, ...] = field(default=("a", "\udcff"))


class Shown(Struct):
    """What of it is answered."""

    seconds: float
    names: Mapping[str, int]
    notes: list[str]


async def get_known(_: Asked) -> Shown:
    """Something that is no text, and a number that is none."""
    return Known(float("nan"), {"\udcff": 1})  # type: ignore[return-value]


async def send(_: Asked, body: Sent) -> str:
    """What was sent."""
    return body.word


OPERATIONS = (
    Operation("GET", "/tubes/{tube}", get_tube),
    Operation("GET", "/jobs/{id}", get_job),
    Operation("GET", "/servers/{server}", get_server),
    Operation("GET", "/known", get_known),
    Operation("POST", "/send", send),
)


def ask(
    path: str, method: str = "GET", body: bytes | None = b"", kind: str = "application/json"
) -> tuple[int, Any, dict[str, str]]:
    """The status, the body and the headers of an answer; a body of None: the client goes away before it is sent."""
    path, _, query = path.partition("?")
    app = Starlette()
    app.state.console = None
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"content-type", kind.encode())],
        "app": app,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"} if body is None else {"type": "http.request", "body": body}

    async def keep(message: Message) -> None:
        sent.append(message)

    asyncio.run(Api(OPERATIONS)(scope, receive, keep))
    if not sent:
        return 0, None, {}
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], json.loads(sent[1]["body"]), headers


NAMES = {
    "a/b/../c": "a%2Fb%2F..%2Fc",
    ";$_()+.-": ";$_()+.-",
    "/": "%2F",
    "..": "..",
    "x" * 200: "x" * 200,
    "017": "017",
}
"""Names that a tube may have, and how they are written in a path."""


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_tube_leads_to_it(name: str) -> None:
    assert ask(f"/api/v1/tubes/{NAMES[name]}?limit=3")[:2] == (200, {"tube": name, "limit": 3})


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/api/v1/tubes/a/b", 404, "there is no /api/v1/tubes/a/b; /openapi.json says what there is"),
        ("/api/v1/tubes/", 400, "the path: Expected `str` of length >= 1 - at `$.tube`"),
        ("/api/v1/tubes/-a", 400, "the path: Expected `str` matching regex "),
        ("/api/v1/tubes/%ff", 400, "the path: 'utf-8' codec can't decode byte 0xff"),
        ("/api/v1/tubes/a?limit=0", 400, "what stands behind ?: Expected `int` >= 1 - at `$.limit`"),
        ("/api/v1/tubes/a?limit=1&limit=2", 400, "what stands behind ?: a parameter is given twice"),
        ("/api/v1/tubes/a?flag=null", 400, "what stands behind ?: Expected a value - at `$.flag`"),
        ("/api/v1/tubes/a?limits=1", 400, "what stands behind ?: Object contains unknown field `limits`"),
        ("/api/v1/jobs/1?limit=1", 400, "what stands behind ?: Object contains unknown field `limit`"),
        ("/api/v1/tubes/a?limit=%ff", 400, "what stands behind ?: 'utf-8' codec can't decode byte 0xff"),
        ("/api/v1/jobs/x", 400, "the path: Expected `int`, got `str` - at `$.id`"),
        ("/api/v1/jobs/7", 404, "there is no job 7"),
        ("/api/v1/servers/a", 503, "a is away"),
        ("/api/v1", 404, "there is no /api/v1; /openapi.json says what there is"),
        ("/api/v2/jobs/7", 404, "there is no /api/v2/jobs/7; /openapi.json says what there is"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(path: str, status: int, sentence: str) -> None:
    found, problem, headers = ask(path)
    assert found == status
    assert problem["detail"].startswith(sentence)
    assert problem["status"] == status
    assert headers["content-type"] == PROBLEM_TYPE


def test_another_method_is_refused_with_those_that_there_are() -> None:
    status, problem, headers = ask("/api/v1/send", "DELETE")
    assert (status, headers["allow"]) == (405, "POST")
    assert problem["detail"] == "there is no DELETE of this, but POST"


def test_an_answer_has_what_its_type_says_and_is_text_whatever_it_is_made_of() -> None:
    assert ask("/api/v1/known")[:2] == (200, {"seconds": None, "names": {"\ufffd": 1}, "notes": ["a", "\ufffd"]})


def test_a_whole_number_may_have_a_point() -> None:
    assert ask("/api/v1/send", "POST", b'{"word": "x", "count": 1.0}')[0] == 200
    assert ask("/api/v1/send", "POST", b'{"word": "x", "count": 1.5}')[0] == 400


def test_a_body_is_json() -> None:
    assert ask("/api/v1/send", "POST", b'{"word": "x"}', "Application/JSON; charset=utf-8")[:2] == (200, "x")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"", "application/json", 400),
        (b"{}", "application/json", 400),
        (b'{"word": "x", "more": 1}', "application/json", 400),
        (b'{"word": "x", "count": "1"}', "application/json", 400),
        (b'{"word": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"word": "\xff"}', "application/json", 400),
        (b'{"word": ' + b"1" * 5000 + b"}", "application/json", 400),
        (b'{"word": "\\ud800"}', "application/json", 400),
        (b" " * (API_BODY_BYTES_MAX + 1), "application/json", 413),
    ],
)
def test_any_other_body_is_refused(body: bytes, kind: str, status: int) -> None:
    assert ask("/api/v1/send", "POST", body, kind)[0] == status


def test_nobody_is_answered_who_went_before_the_body_was_there() -> None:
    assert ask("/api/v1/send", "POST", None)[0] == 0
