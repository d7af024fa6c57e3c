"""A mistake of a request or a fault of a server, as JSON (RFC 9457). What asks for data gets no page."""

import json
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from beanpole.console.answers import HEADERS

MEDIA_TYPE = "application/problem+json"


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says in one sentence what is wrong."""
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    text = json.dumps(said)
    return Response(text, status, {**HEADERS, **(headers or {})}, MEDIA_TYPE)
