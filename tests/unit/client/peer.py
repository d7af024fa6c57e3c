"""A scripted server on 127.0.0.1, and one face for both clients, so that a test is written once.

A script is a list of connections, each a list of steps: bytes to expect, then what to do about them.
"""

import asyncio
import contextlib
import inspect
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from beanpole import AsyncClient, Client

WAIT_S = 20.0
"""How long the peer waits for what must come."""

CLOSE = object()
"""As an answer: the peer closes the connection."""

RESET = object()
"""As an answer: the peer closes the connection with a RST."""

SILENCE = object()
"""As an answer: the peer says nothing until the client goes."""

# As an answer, an Event is TIMED_OUT as soon as it is set, and a function is called for the answer.
Steps = list[tuple[bytes, Any]]

ALIVE = (b"watch default\r\n", b"WATCHING 1\r\n")
"""How a connection begins if there is nothing else to say: one to one of several addresses, the first after a loss, or
one whose first command may wait.
"""

ASK = b"list-extensions\r\n"

NONE = (ASK, b"UNKNOWN_COMMAND\r\n")
"""A client asks what the server has, and gets a beanstalkd's answer."""


def ok(text: bytes) -> bytes:
    """An answer with a text."""
    return b"OK %d\r\n%s\r\n" % (len(text), text)


def listing(*features: str) -> bytes:
    """The answer to list-extensions."""
    return ok(b"".join([b"---\n", *(b"- %s\n" % each.encode() for each in ("list-extensions", *features))]))


def has(*features: str) -> tuple[bytes, bytes]:
    """A client asks, and the server has these."""
    return ASK, listing(*features)


class Peer:
    """A server that expects what its script says."""

    def __init__(self, *connections: Steps, tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._connections = connections
        self._tls = tls
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for steps in self._connections:
                connection, _ = self._listener.accept()
                connection.settimeout(WAIT_S)
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                with connection:
                    self._serve(connection, steps)
        except BaseException as failure:  # noqa: BLE001 - told by the thread of the test
            self.failure = failure
        finally:
            self._listener.close()

    def _serve(self, connection: socket.socket, steps: Steps) -> None:
        for expected, answer in steps:
            received = b""
            while len(received) < len(expected):
                piece = connection.recv(len(expected) - len(received))
                assert piece, f"the client closed after {received!r}, not {expected!r}"
                received += piece
            assert received == expected, f"the client sent {received!r}, not {expected!r}"
            if callable(answer):
                answer = answer()  # noqa: PLW2901 - now it is one of the others
            if answer is CLOSE:
                return
            if answer is RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if isinstance(answer, threading.Event):
                answer.wait(WAIT_S)
                connection.sendall(b"TIMED_OUT\r\n")
            elif answer is not SILENCE:
                connection.sendall(answer)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b"", "the client sent more than the script knows"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._thread.join(WAIT_S if kind is None else 0.1)
        if kind is None:
            assert not self._thread.is_alive(), "the client did not do all that the script says"
            if self.failure:
                raise self.failure


class Driven:
    """An AsyncClient with the face of a Client: each call runs a loop until it is done."""

    def __init__(self, runner: "asyncio.Runner", driven: Any) -> None:
        self._runner = runner
        self._driven = driven

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driven, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._finish(found(*args, **kwargs))

        return call

    def _finish(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            return self._runner.run(value)
        if inspect.isasyncgen(value):
            return self._iterate(value)
        return Driven(self._runner, value) if hasattr(value, "__aenter__") else value

    def _iterate(self, generator: Any) -> Iterator[Any]:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self._runner.run(generator.__anext__())

    def __len__(self) -> int:
        return len(self._driven)

    def __enter__(self) -> Any:
        self._runner.run(self._enter())
        return self

    async def _enter(self) -> None:
        await self._driven.__aenter__()

    def __exit__(self, *error: object) -> None:
        async def leave() -> None:
            await self._driven.__aexit__(*error)

        self._runner.run(leave())


class Maker:
    """Makes clients of one kind and closes them in the end."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._runner = asyncio.Runner() if kind == "async" else None
        self._made: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A client."""
        made: Any
        made = AsyncClient(*args, **kwargs) if self._runner else Client(*args, **kwargs)
        if self._runner:
            made = Driven(self._runner, made)
        self._made.append(made)
        return made

    @contextmanager
    def to_peer(self, *connections: Steps, **options: Any) -> Iterator[Any]:
        """A client of a peer with a script; it is closed in the end, and all that the script says was done then."""
        with Peer(*connections) as peer:
            client = self(peer.address, **options)
            yield client
            client.close()

    @property
    def asking(self) -> Steps:
        """What stands in front of the first reserve that waits: a client that may be cancelled asks how to end it."""
        return [NONE] if self._runner else []

    @property
    def asking_first(self) -> Steps:
        """How a connection begins if the first command waits, or after the loss of one over which it has waited."""
        return self.asking or [ALIVE]

    def close(self) -> None:
        """Closes what was made."""
        for made in self._made:
            made.close()
        if self._runner is not None:
            self._runner.close()


@contextmanager
def maker(kind: str) -> Iterator[Maker]:
    """A maker of "sync" or "async" clients."""
    made = Maker(kind)
    try:
        yield made
    finally:
        made.close()
