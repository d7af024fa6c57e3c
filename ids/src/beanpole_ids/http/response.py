"""Answers of the HTTP API, whole. An error is a problem document (RFC 9457)."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from beanpole_ids.http.openapi import PROBLEMS

JSON = "application/json"
CLOSE = ("Connection", "close")
"""The field of a response that is the last one on its connection."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""


@dataclass(slots=True)
class Response:
    """An answer."""

    status: int
    body: bytes
    kind: str = JSON
    fields: tuple[tuple[str, str], ...] = ()


Answer = Callable[[Response], None]
"""Takes the response, now or later."""


class ProblemError(Exception):
    """A request is answered with a problem."""

    def __init__(self, name: str, detail: str, *fields: tuple[str, str]) -> None:
        super().__init__(detail)
        self.response = problem(name, detail, *fields)


def to_json(status: int, found: object, kind: str = JSON, *fields: tuple[str, str]) -> Response:
    """Return a response in JSON. It is ASCII, so that a rule's bytes that are no UTF-8 make no bad JSON."""
    return Response(status, json.dumps(found, separators=(",", ":")).encode(), kind, fields)


def problem(name: str, detail: str, *fields: tuple[str, str], **more: object) -> Response:
    """Return the response to what went wrong; `name` is one of `PROBLEMS`."""
    status, title, _ = PROBLEMS[name]
    if status == 503:
        fields = (*fields, ("Retry-After", "1"))
    found = {"type": f"/docs#{name}", "title": title, "status": status, "detail": detail} | more
    return to_json(status, found, "application/problem+json", *fields)
