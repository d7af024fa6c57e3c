"""The blocking client: a socket for each node that was asked, made when it is needed.

Sockets are connected, so the kernel passes on only datagrams of the node, and reports at once if its port is closed. A
node that was silent gets a new socket next time, and its name is looked up again: so a late answer is dropped.
"""

import socket
import threading
import time
from typing import Any, Self

from beanpole_ids import limits
from beanpole_ids.client import calls
from beanpole_ids.client.calls import BaseClient, Call, Node
from beanpole_ids.client.ranges import Forkable, Range


class IdClient(BaseClient[socket.socket], Forkable):
    """A client of the ID service.

    `nodes` is a URL (``ids://host:port,host:port``), an address, or a list of addresses. `timeout` is how many seconds
    a node has to answer before the next one is asked, `rounds` how often each is asked. `chance` gives a number from
    0 to 1, which chooses the node to begin with.

    Threads may share a client; their calls go one after the other. A forked process gets sockets of its own.
    """

    def _begin(self) -> None:
        self._lock = threading.Lock()
        Forkable.__init__(self)

    def after_fork(self) -> None:
        """Begin with no socket."""
        for each in self._connections.values():
            each.close()
        self._connections = {}
        self._begin()

    def get(self, rule: str, app: str, *, salt: str | None = None) -> str:
        """Return a number.

        Raises IdServiceError: there is none; NoNodeError: no node has answered; ArgumentError: the
        request is too large, or no text.
        """
        return calls.number_of(self._call(calls.get(rule, app, salt)))

    def get_many(self, rule: str, app: str, count: int, *, salt: str | None = None) -> list[str]:
        """Return many numbers; each thousand is a request. If one of these fails, the numbers before it are a gap.

        Raises IdServiceError, NoNodeError, ArgumentError: as `get`; UnexpectedReplyError: the node is an
        lxyfirst/id_server, which gives one at a time.
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

        Raises IdServiceError, NoNodeError: as `get`.
        """
        data: dict[str, Any] = self._call(calls.monitor(rule, app))["data"]
        return data

    def _call(self, call: Call) -> dict[str, Any]:
        with self._lock:
            for node in self._attempts(call):
                if node is None:
                    time.sleep(self._timeout_s)
                    continue
                try:
                    reply = self._ask(node, call)
                    if self._take_cookie(node, reply):
                        reply = self._ask(node, call)
                except OSError as error:
                    self._drop(node)
                    call.failed(node, error)
                    continue
                if call.take(reply):
                    self._nodes.answered(node)
                    return reply
        raise call.no_node()

    def _ask(self, node: Node, call: Call) -> dict[str, Any]:
        """Send a request to a node and return its reply.

        Raises OSError: it does not answer.
        """
        connection = self._connections.get(node) or self._open(node)
        connection.send(call.data_with(self._cookies.get(node)))
        for _ in range(calls.STRAYS_MAX):
            reply = call.read(connection.recv(calls.REPLY_BYTES_MAX))
            if reply is not None:
                return reply
        raise TimeoutError("only replies to earlier requests came")

    def _open(self, node: Node) -> socket.socket:
        if self._closed:
            raise RuntimeError("the client is closed")
        found = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(self._timeout_s)
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
        self._connections[node] = connection
        return connection

    def _drop(self, node: Node) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the sockets. Ranges go on until their numbers are given."""
        with self._lock:
            self._closed = True
            for node in list(self._connections):
                self._drop(node)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
