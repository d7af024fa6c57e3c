"""Asks the API of a console."""

import json
from typing import Any

from tests.e2e.console.process import Console


def asked(
    served: Console, path: str, status: int = 200, method: str = "GET", *, body: object = None, token: str = ""
) -> Any:  # noqa: ANN401 - JSON
    """What the API answers, which must be so."""
    bearer = f"Bearer {token}" if token else ""
    sent = {} if body is None else {"body": json.dumps(body), "Content_Type": "application/json"}
    answer = served.ask(method, f"/api/v1{path}", **sent, Authorization=bearer)
    said = json.loads(answer.body)
    assert answer.status == status, said
    kind = "application/json" if status == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind
    return said
