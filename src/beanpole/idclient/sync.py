"""The blocking client: a socket for each node that was asked, made when it is needed.

Sockets are connected, so the kernel passes on only datagrams of the node, and reports at once if its port is closed. A
node that was silent gets a new socket next time, and its name is looked up again: so a late answer is dropped.
"""

import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from beanpole.idclient import calls, limits
from beanpole.idclient.calls import Call, Given, Node, Options
from beanpole.idclient.ranges import Forkable, Range


class IdClient(Forkable):
    """A client of the ID service.

    `nodes` is a URL (``ids://host:port,host:port``), an address, or a list of addresses. `timeout` is how many seconds
    a node has to answer before the next one is asked, `rounds` how often each is asked. `chance` gives a number from
    0 to 1, which chooses the node to begin with.

    Threads may share a client; their calls go one after the other. A forked process gets sockets of its own.
    """

    def __init__(
        self,
        nodes: Given,
        *,
        timeout: float = limits.TIMEOUT_MS / 1000,
        rounds: int = limits.ROUNDS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._options = Options(nodes, timeout, rounds, chance)
        self._closed = False
        self._sockets: dict[Node, socket.socket] = {}
        self._lock = threading.Lock()
        super().__init__()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:  # noqa: ANN401 - what the constructor takes
        """Return a client of the nodes at ``ids://host:port,host:port``; the rest is the constructor's.

        Raises:
            ArgumentError: it is no such URL.
        """
        return cls(url, **options)

    def after_fork(self) -> None:
        """Begin with no socket."""
        for each in self._sockets.values():
            each.close()
        self._sockets = {}
        self._lock = threading.Lock()

    def get(self, rule: str, app: str, *, salt: str | None = None) -> str:
        """Return a number.

        Raises:
            IdServiceError: there is none.
            NoNodeError: no node has answered.
            ArgumentError: the request is too large, or no text.
        """
        return calls.number_of(self._call(calls.get(rule, app, salt)))

    def get_many(self, rule: str, app: str, count: int, *, salt: str | None = None) -> list[str]:
        """Return many numbers; each thousand is a request. If one of these fails, the numbers before it are a gap.

        Raises:
            IdServiceError, NoNodeError, ArgumentError: as `get`.
            UnexpectedReplyError: the node is an lxyfirst/id_server, which gives one at a time.
        """
        numbers: list[str] = []
        for piece in calls.pieces(count):
            numbers += calls.numbers_of(self._call(calls.get(rule, app, salt, piece)))
        return numbers

    def range(self, rule: str, app: str, size: int = limits.RANGE_SIZE, *, salt: str | None = None) -> Range:
        """Return numbers that are fetched `size` at a time and handed out here."""
        return Range(lambda count: self.get_many(rule, app, count, salt=salt), size)

    def monitor(self, rule: str, app: str) -> dict[str, Any]:
        """Return the state of a counter on the node that answers: `counter`, `remaining`, `resets_at` and others.

        Raises:
            IdServiceError, NoNodeError: as `get`.
        """
        data: dict[str, Any] = self._call(calls.monitor(rule, app))["data"]
        return data

    def _call(self, call: Call) -> dict[str, Any]:
        nodes = self._options.nodes
        with self._lock:
            for round_number in range(self._options.rounds):
                if round_number and call.end_round():
                    time.sleep(self._options.timeout_s)
                for node in nodes.order():
                    try:
                        reply = self._ask(node, call)
                    except OSError as error:
                        self._drop(node)
                        call.failed(node, error)
                        continue
                    if call.take(reply):
                        nodes.answered(node)
                        return reply
            call.end_round()
        raise call.no_node()

    def _ask(self, node: Node, call: Call) -> dict[str, Any]:
        """Send a request to a node and return its reply.

        Raises:
            OSError: it does not answer.
        """
        connection = self._sockets.get(node) or self._open(node)
        connection.send(call.data)
        for _ in range(calls.STRAYS_MAX):
            reply = call.read(connection.recv(calls.REPLY_BYTES_MAX))
            if reply is not None:
                return reply
        raise TimeoutError("only strays came")

    def _open(self, node: Node) -> socket.socket:
        if self._closed:
            raise RuntimeError("the client is closed")
        found = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(self._options.timeout_s)
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
        self._sockets[node] = connection
        return connection

    def _drop(self, node: Node) -> None:
        connection = self._sockets.pop(node, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the sockets. Ranges go on until their numbers are given."""
        with self._lock:
            self._closed = True
            for node in list(self._sockets):
                self._drop(node)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
