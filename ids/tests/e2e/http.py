"""A service with HTTP, and a client that takes each response for what it is."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.process import Ids, running, write_rules
from tests.processes import REPLY_TIMEOUT_S

HTTP = '[http]\nlisten = "{}"'


@dataclass(frozen=True)
class Found:
    """A response."""

    status: int
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - what it says
        """The body, of whatever kind of JSON."""
        assert self.fields["content-type"] in {"application/json", "application/problem+json"}
        return json.loads(self.body)


class Web:
    """The HTTP of a running service."""

    def __init__(self, service: Ids, url: str) -> None:
        parts = urlsplit(url)
        self.service = service
        self.url = url
        self.address = (parts.hostname or "", parts.port or 0)

    def get(self, path: str, method: str = "GET", body: bytes | None = None, **fields: str) -> Found:
        """The response to a request, which has a mark unless it is not to have one."""
        fields = {"X-Beanpole": "1"} | {name.replace("_", "-"): value for name, value in fields.items()}
        connection = http.client.HTTPConnection(*self.address, timeout=REPLY_TIMEOUT_S)
        try:
            connection.request(method, path, body, {name: value for name, value in fields.items() if value})
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Found(response.status, fields, response.read())
        finally:
            connection.close()


@contextmanager
def web(folder: Path, listen: str = "127.0.0.1:0", config: Path | None = None) -> Iterator[Web]:
    """A service that answers, also over HTTP."""
    config = config or write_rules(folder, more=HTTP.format(listen))
    with running(folder, config) as service:
        yield Web(service, (folder / "ready").read_text().split()[1])


def tails(found: Any) -> list[int]:  # noqa: ANN401 - what a response says
    """The counters of numbers of the rule `order`."""
    return [int(each[7:]) for each in found["ids"]]
