"""The socket: one JSON object in a datagram, one reply in a datagram.

Whatever arrives, the next datagram is read: an error of the socket or of a request is only counted. The socket is read
until it is empty, several datagrams in a turn of the event loop, and each is answered before the next is read, so that
many requests share the cost of a turn.
"""

import asyncio
import contextlib
import socket
from collections import deque
from functools import partial
from typing import Any

from beanpole.ids import limits
from beanpole.ids.service import Service
from beanpole.limits import IDS_REQUEST_BYTES_MAX


class Datagrams:
    """The UDP socket of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.failed_count = 0
        """Datagrams that could not be answered."""

        self._unsent: deque[tuple[bytes, Any]] = deque()
        """Replies that the kernel has not accepted, and their addresses."""

        self._unsent_bytes = 0

    def open(self, host: str, port: int, *, is_shared: bool = False) -> tuple[Any, ...]:
        """Bind an address, and serve what comes; return the address. Ask for large buffers.

        `is_shared`: other processes of ours bind the same address; each client's datagrams come to one of them.

        Raises OSError: it can't be bound.
        """
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
        )[0]
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                with contextlib.suppress(OSError):
                    self._socket.setsockopt(socket.SOL_SOCKET, option, limits.SOCKET_BYTES)
            if is_shared:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._socket.bind(address)
        except BaseException:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._read)
        bound: tuple[Any, ...] = self._socket.getsockname()
        return bound

    def _read(self) -> None:
        """Serve datagrams that have come, up to a number, after which other work of the loop is done."""
        receive, serve, send = self._socket.recvfrom, self.service.receive, self.send
        for _ in range(limits.TURN_DATAGRAMS_MAX):
            try:
                data, address = receive(IDS_REQUEST_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError:  # the receiver of an earlier reply is gone
                self.failed_count += 1
                continue
            try:
                serve(data, partial(send, address))
            except Exception:  # noqa: BLE001 - counted; the service has reported its own
                self.failed_count += 1

    def send(self, address: Any, reply: bytes) -> None:  # noqa: ANN401 - of any family
        """Send a reply; one that does not fit or is not accepted is lost, as any datagram may be."""
        if len(reply) > limits.REPLY_BYTES_MAX or self._unsent_bytes > limits.SOCKET_BYTES:
            self.failed_count += 1
        elif self._unsent:
            self._keep(address, reply)
        else:
            try:
                self._socket.sendto(reply, address)
            except BlockingIOError:
                self._keep(address, reply)
                self._loop.add_writer(self._socket, self._send_more)
            except OSError:
                self.failed_count += 1

    def _keep(self, address: Any, reply: bytes) -> None:  # noqa: ANN401 - see `send`
        self._unsent.append((reply, address))
        self._unsent_bytes += len(reply)

    def _send_more(self) -> None:
        """Send replies that the kernel did not accept before."""
        while self._unsent:
            reply, address = self._unsent[0]
            try:
                self._socket.sendto(reply, address)
            except BlockingIOError:
                return
            except OSError:
                self.failed_count += 1
            self._unsent.popleft()
            self._unsent_bytes -= len(reply)
        self._loop.remove_writer(self._socket)

    def close(self) -> None:
        """Send what the kernel accepts at once, and close the socket."""
        if self._unsent:
            self._send_more()
        self.failed_count += len(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
