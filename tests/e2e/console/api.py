"""Asks the API of a console."""

import http.client
import json
from typing import Any

from tests.e2e.console.process import Console
from tests.servers import HOST, REPLY_TIMEOUT_S

TOKEN = "a-token-of-tests"  # noqa: S105 - of servers that live as long as a test


def asked(
    served: Console, path: str, status: int = 200, method: str = "GET", *, body: object = None, token: str = ""
) -> Any:  # noqa: ANN401 - JSON
    """What the API answers, which must be so."""
    connection = http.client.HTTPConnection(HOST, served.port, timeout=REPLY_TIMEOUT_S)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        if body is None:
            connection.request(method, f"/api/v1{path}", headers=headers)
        else:
            headers["Content-Type"] = "application/json"
            connection.request(method, f"/api/v1{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
    finally:
        connection.close()
    assert answer.status == status, said
    kind = "application/json" if status == 200 else "application/problem+json"
    assert answer.headers["Content-Type"] == kind
    return said
