"""A node of a test's own, and both clients behind one face."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from beanpole_ids.client import AsyncIdClient, AsyncRange, IdClient, Range

Asked = dict[str, Any]
Script = Callable[[Asked, int], list[bytes]]
"""What a node sends when it is asked something for the n-th time, from 0."""

TIMEOUT_S = 30.0
"""More than a test may take: who waits for it is found."""


class FakeNode:
    """A socket that answers as a script says, in a thread."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(65_535)
            if not data:
                return
            self.asked.append(json.loads(data))
            for each in self.script(self.asked[-1], len(self.asked) - 1):
                self._socket.sendto(each, sender)

    def close(self) -> None:
        """Ends the thread and closes the socket."""
        self._socket.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()


@contextmanager
def node(script: Script) -> Iterator[FakeNode]:
    """A node that answers as a script says."""
    started = FakeNode(script)
    try:
        yield started
    finally:
        started.close()


@contextmanager
def closed_port() -> Iterator[tuple[str, int]]:
    """An address at which nobody listens, over UDP or over TCP, nor can: it is taken.

    The socket of UDP is connected to itself, so the kernel refuses others; that of TCP does not listen.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        address: tuple[str, int] = udp.getsockname()
        udp.connect(address)
        with socket.socket() as tcp:
            try:
                tcp.bind(address)
                is_free = True
            except OSError:  # somebody has this port of TCP
                is_free = False
            if is_free:
                yield address
                return
        with closed_port() as other:
            yield other


def reply(asked: Asked, **fields: object) -> bytes:
    """A reply of the service."""
    return json.dumps(asked | {"code": 0, "message": "success"} | fields).encode()


def silent(_: Asked, __: int) -> list[bytes]:
    """Answers nothing."""
    return []


def counting(asked: Asked, number: int) -> list[bytes]:
    """Answers with how often it was asked."""
    if asked["action"] != "get":
        return [reply(asked, data={"counter": number})]
    if "count" in asked:
        return [reply(asked, data=[f"{number}-{each}" for each in range(asked["count"])])]
    return [reply(asked, data=str(number))]


class Asyncio:
    """The asyncio client, driven as the blocking one is."""

    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop

    def __init__(self, nodes: Any, **options: Any) -> None:  # noqa: ANN401 - what the client takes
        self._runner = asyncio.Runner(loop_factory=type(self).make_loop)
        self._client = AsyncIdClient(nodes, **options)

    def get(self, *args: Any, **options: Any) -> str:  # noqa: ANN401 - what the client takes
        return self._runner.run(self._client.get(*args, **options))

    def get_many(self, *args: Any, **options: Any) -> list[str]:  # noqa: ANN401 - what the client takes
        return self._runner.run(self._client.get_many(*args, **options))

    def monitor(self, *args: Any) -> dict[str, Any]:  # noqa: ANN401 - what the client takes
        return self._runner.run(self._client.monitor(*args))

    def range(self, *args: Any, **options: Any) -> "AsyncioRange":  # noqa: ANN401 - what the client takes
        return AsyncioRange(self._runner, self._client.range(*args, **options))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class Uvloop(Asyncio):
    """The same on the loop that many use."""

    make_loop = uvloop.new_event_loop


class AsyncioRange:
    """A range of it."""

    def __init__(self, runner: asyncio.Runner, wrapped: AsyncRange) -> None:
        self._runner = runner
        self._wrapped = wrapped

    def next_id(self) -> str:
        return self._runner.run(self._wrapped.next_id())

    def turn(self) -> None:
        """Lets a fetch ahead go on, which takes some turns of the loop."""
        self._runner.run(asyncio.sleep(0.005))

    def __len__(self) -> int:
        return len(self._wrapped)


AnyClient = IdClient | Asyncio
AnyRange = Range | AsyncioRange
