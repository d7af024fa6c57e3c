"""Answers of the HTTP API, whole. An error is a problem document (RFC 9457)."""

import json
from dataclasses import dataclass

JSON = "application/json"
CLOSE = ("Connection", "close")
"""The field of a response that is the last one on its connection."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""

PROBLEMS: dict[str, tuple[int, str, str]] = {
    "bad-request": (400, "Bad request", "The request makes no sense; `detail` says why. Don't send it again."),
    "forbidden": (403, "Forbidden", "The rule is not for this application: the configuration says for which it is."),
    "unknown-path": (404, "Unknown path", "Nothing is served at this path."),
    "unknown-rule": (404, "Unknown rule", "The configuration has no rule of this name."),
    "unused": (404, "Unused", "Nobody has asked for a number of this counter."),
    "unmarked": (403, "Not marked", "A GET gives numbers only with the field `X-Beanpole`. Send that, or a POST."),
    "other-site": (403, "Other site", "A browser asks for a page of another site, which `Origin` names."),
    "not-from-here": (403, "Not from here", "Only networks that the configuration names may ask for this."),
    "wrong-method": (405, "Wrong method", "The path does not take this method; the field `Allow` says which."),
    "late": (408, "Too late", "The request did not come whole in time."),
    "refused": (409, "Refused", "The configuration has a fault, which `detail` says. Nothing has changed."),
    "exhausted": (409, "Exhausted", "The cycle's numbers are given; `resets_at` says when counting starts again."),
    "too-large": (413, "Too large", "The body is too large. None is needed."),
    "not-json": (415, "Not JSON", "A body must be a JSON object, with `Content-Type: application/json`."),
    "unknown-host": (421, "Unknown name", "`Host` is neither an address nor a name that the configuration has."),
    "limited": (429, "Limited", "A limit of the configuration is reached; `retry_s` says when to ask again, if ever."),
    "long-head": (431, "Too large", "The first line and the fields are too large."),
    "failed": (500, "Rule failed", "The rule made no number, or there are too many applications; `detail` says why."),
    "storage": (503, "Storage", "Nothing can be reserved. Ask again, or another node."),
    "clock": (503, "Clock", "The node's clock has jumped ahead and nobody has accepted it. Ask another node."),
    "busy": (503, "Busy", "Too many connections, in all or from one address; see `/health` all the same."),
}
"""Everything that can go wrong: its name, which `type` ends with, the status, the title, and what it means."""


@dataclass(slots=True)
class Response:
    """An answer."""

    status: int
    body: bytes
    kind: str = JSON
    fields: tuple[tuple[str, str], ...] = ()


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
