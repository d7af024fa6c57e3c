"""Live pages over real HTTP, readers that are slow, and a console that stops while somebody looks."""

import asyncio
import http.client
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from beanpole import Client
from beanpole.console.answers import keep_open
from beanpole.console.serving import make_server
from beanpole.console.streams import Pace, Streams, event_stream
from tests.e2e.console.process import Console, console, url_of
from tests.servers import HOST, REPLY_TIMEOUT_S, STOP_TIMEOUT_S, beanpole_server
from tests.unit.console.test_serving import Log, until

ACCEPT = {"Accept": "text/event-stream"}


@dataclass
class Page:
    """A live page."""

    answer: http.client.HTTPResponse

    @property
    def status(self) -> int:
        return self.answer.status

    def event(self) -> str:
        """The next event as a text; empty: the stream has ended."""
        lines = []
        while line := self.answer.readline().decode().rstrip("\n"):
            lines.append(line)
        return "\n".join(lines)

    def wait_for(self, text: str) -> str:
        """The first event with a text in it."""
        while text not in (event := self.event()):
            assert event, f"the stream ended before {text!r} came"
        return event


@contextmanager
def live(served: Console, path: str = "/") -> Iterator[Page]:
    connection = http.client.HTTPConnection(HOST, served.port, timeout=REPLY_TIMEOUT_S)
    try:
        connection.request("GET", path, headers=ACCEPT)
        yield Page(connection.getresponse())
    finally:
        connection.close()


def test_page_is_live(client: Client[bytes], looking: Console) -> None:
    assert looking.get("/", "HEAD", **ACCEPT).status == 200
    with live(looking) as page:
        assert (page.status, page.answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        first = page.event()
        client.put(b"body", tube="of-this-test")
        second = page.event()
    for event in (first, second):
        kind, data = event.split("\n")
        assert kind == "event: state"
        about = json.loads(data.removeprefix("data: "))
        assert about.keys() == {"at", "blocks"}
        assert isinstance(about["at"], float)
    assert first.partition("blocks")[2] != second.partition("blocks")[2]


def test_a_console_stops_at_once_with_pages_open() -> None:
    with beanpole_server() as server, console("--url", url_of(server, "one")) as served:
        with ExitStack() as pages:
            for page in [pages.enter_context(live(served)) for _ in range(20)]:
                assert page.event().startswith("event: state")
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(STOP_TIMEOUT_S) == 0
        lines = served.messages.read_text().splitlines()
        assert "console stopped" in lines[-1]
        assert not [line for line in lines if '"error"' in line]


STATE = "x" * 50_000  # as large as a long list
STATES_MAX = 5  # states that may be on their way to a client that reads nothing


def test_slow_reader_gets_the_newest_state_and_few_others() -> None:
    async def main() -> bytes:
        age, numbers, received = "old", count(), b""

        async def make() -> dict[str, str]:
            return {"main": f"{age} {next(numbers)} {STATE}"}

        async def stream(request: Request) -> Response:
            keep_open(request)
            return event_stream(Streams(), [], make, lambda: 0, Pace(every_s=0, beat_s=0))

        def is_full() -> bool:
            return any(each.flow.write_paused for each in server.server_state.connections)  # type: ignore[union-attr]

        server, loop = make_server(Starlette(routes=[Route("/", stream)]), Log()), asyncio.get_running_loop()
        listening = socket.create_server((HOST, 0))
        running = asyncio.create_task(server.serve([listening]))
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, listening.getsockname())
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                await until(is_full)
                age = "new"
                while b'"new ' not in received:
                    received += await loop.sock_recv(client, 65_536)
        server.stop()
        await running
        return received

    assert 0 < asyncio.run(main()).count(b'"old ') <= STATES_MAX
