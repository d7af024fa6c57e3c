"""Connections as they come: all are taken from the kernel at once, and let in by turns of their sources.

The kernel has one line for all, in which a client that opens thousands of connections a second would stand before
everybody else. Here it stands in a line of its own; when that is full, its next connections are closed.
"""

import asyncio
import errno
import socket
from collections.abc import Callable

from beanpole_ids import limits
from beanpole_ids.fair import Fair
from beanpole_ids.http.turns import Turns
from beanpole_ids.waiting import network_of

OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors of accept(2) that the next call would have, too."""


class Listener:
    """The sockets that are listened on."""

    def __init__(
        self,
        protocol: Callable[[str], asyncio.Protocol],
        now_ns: Callable[[], int],
        waiting_max: int = limits.HTTP_ARRIVALS_MAX,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """`protocol`: makes that of a connection from an address. `waiting_max`: how many may wait of a source.

        `make_room`: ends a connection, as there is no descriptor left for another one; whether there was one to end.
        """
        self.refused_count = 0
        """Connections that were closed as too many of their source waited."""

        self._protocol = protocol
        self._make_room = make_room
        self._fair = Fair(waiting_max, waiting_max)
        self._turns = Turns(self._let_in, self._fair, now_ns, limits.HTTP_ARRIVAL_US)
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, host: str, port: int) -> list[str]:
        """Listen; return the addresses.

        Raises OSError: it can't be listened on one.
        """
        self._loop = asyncio.get_running_loop()
        failure: OSError | None = None
        try:
            names = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            names = list(dict.fromkeys(names))  # one may be in /etc/hosts twice
            for family, kind, protocol, _, address in names:
                try:
                    self._sockets.append(listening_socket(family, kind, protocol, address))
                except OSError as error:
                    if error.errno != errno.EAFNOSUPPORT:  # else this system has no IPv6
                        raise
                    failure = error
            if failure and not self._sockets:
                raise failure
        except OSError as error:
            self.close()
            raise OSError(error.errno, f"HTTP on {host}:{port}: {error.strerror or error}") from error
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)
        bound = [each.getsockname()[:2] for each in self._sockets]
        return [f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}" for name, port in bound]

    def close(self) -> None:
        """Listen no more, and close the connections that wait."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        while (waiting := self._fair.take()) is not None:
            waiting[0].close()

    def _accept(self, listening: socket.socket) -> None:
        """Take the connections that the kernel has."""
        for _ in range(limits.HTTP_ACCEPT_COUNT):
            try:
                found, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._loop.remove_reader(listening)
                    wait_s = 0 if self._make_room() else limits.HTTP_ACCEPT_AGAIN_S
                    self._loop.call_later(wait_s, self._accept_again, listening)
                    return
                continue  # that connection has ended
            found.setblocking(False)
            if not self._turns.add(network_of(address[0]).encode(), None, (found, address[0]), 1):
                self.refused_count += 1
                found.close()

    def _accept_again(self, listening: socket.socket) -> None:
        """Accept connections again if it is still listened."""
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _let_in(self, arrival: tuple[socket.socket, str]) -> None:
        """Begin to serve a connection."""
        task = self._loop.create_task(self._connect(*arrival))
        self._tasks.add(task)  # the loop keeps no strong reference
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, found: socket.socket, source: str) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._protocol(source), found)
        except OSError:  # the client has gone
            found.close()


def listening_socket(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    """Return a socket that is listened on.

    Raises OSError: it can't be.
    """
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # IPv4 has a socket of its own
        found.bind(address)
        found.listen(limits.HTTP_BACKLOG)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found
