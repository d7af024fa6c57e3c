"""The API by examples, as commands for a shell with this console's own address and servers."""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from beanpole.console.answers import is_https
from beanpole.console.api.operations import PREFIX, Example, Operation
from beanpole.console.api.table import OPERATIONS
from beanpole.console.screens.screen import Screen, View

HEADER = '"Authorization: Bearer $TOKEN"'

PLACES = {
    "tube": "default",
    "id": "1",
    "run": "1",
    "schedule": "nightly",
}  # what stands in paths for what there is: the tube is always there


Command = tuple[str, str]  # what it is for, and the line for a shell


def commands(operations: Sequence[Operation], origin: str, server: str, *, has_tokens: bool) -> Iterator[Command]:
    """The examples of all operations of a console at `origin`, for one of its servers."""
    for operation in operations:
        for example in operation.examples:
            line = line_of(operation, example, origin, server, has_tokens=has_tokens)
            yield example.what or operation.summary, line


def line_of(operation: Operation, example: Example, origin: str, server: str, *, has_tokens: bool) -> str:
    places = {"server": server, **PLACES}
    path = "/".join(quote(places[each[1:-1]], safe="") if each.startswith("{") else each for each in operation.segments)
    query = f"?{urlencode(example.query)}" if example.query else ""
    words = ["curl"]
    if operation.method == "DELETE":
        words.append("-X DELETE")
    if has_tokens or operation.method != "GET":
        words.append(f"-H {HEADER}")
    if example.body is not None:
        body = json.dumps({"verb": example.body["verb"], "server": server, **example.body})
        words += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    return " ".join([*words, shlex.quote(f"{origin}{PREFIX}/{path}{query}")])


def others(origin: str, *, has_tokens: bool) -> Iterator[Command]:
    for what, path, is_open in (
        ("All of this for programs that make clients.", "/openapi.json", False),
        ("A list with its filter as JSON lines, to the end: each page that shows one has it.",
            "/jobs.jsonl?tube=default&state=ready", False),
        ("Metrics for Prometheus.", "/metrics", True),
        ("Whether the servers take jobs.", "/ready", True),
    ):  # fmt: skip
        words = ["curl", *([f"-H {HEADER}"] if has_tokens and not is_open else [])]
        yield what, " ".join([*words, shlex.quote(f"{origin}{path}")])


def origin_of(request: Request) -> str:
    return f"http{'s' * is_https(request)}://{request.headers.get('host') or 'localhost'}"


def is_acting(line: str) -> bool:
    return " -d " in line or "/actions" in line


async def show(view: View) -> dict[str, Any]:
    origin, has_tokens = origin_of(view.request), view.request.app.state.access is not None
    found = list(commands(OPERATIONS, origin, view.server.name, has_tokens=has_tokens))
    return {
        "has_tokens": has_tokens,
        "looking": [each for each in found if not is_acting(each[1])],
        "acting": [each for each in found if is_acting(each[1])],
        "others": list(others(origin, has_tokens=has_tokens)),
    }


SCREEN = Screen("/examples", "examples.html", show, title="API", key="i")
