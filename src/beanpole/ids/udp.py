"""The socket: one JSON object in a datagram, one reply in a datagram.

Whatever arrives, the next datagram is read: an error of a socket or a request is counted and forgotten.
"""

import asyncio
import contextlib
import socket
from typing import Any

from beanpole import limits
from beanpole.ids.service import Service


class Datagrams(asyncio.DatagramProtocol):
    """Gives datagrams to a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.failed_count = 0
        """Datagrams that could not be answered."""

        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket, with large buffers if the system lets us have them."""
        self._transport = transport
        found = transport.get_extra_info("socket")
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, option, limits.IDS_SOCKET_BYTES)

    def datagram_received(self, data: bytes, address: Any) -> None:  # noqa: ANN401 - of any family
        """Serve a datagram."""
        try:
            self.service.receive(data, lambda reply: self.send(reply, address))
        except (ValueError, RecursionError):
            self.failed_count += 1

    def send(self, reply: bytes, address: Any) -> None:  # noqa: ANN401 - of any family
        """Send a reply; one that does not fit, or that nobody takes, is lost as any datagram may be."""
        transport = self._transport
        if (
            transport is None
            or transport.is_closing()
            or transport.get_write_buffer_size() > limits.IDS_SOCKET_BYTES
            or len(reply) > limits.IDS_REPLY_BYTES_MAX
        ):
            self.failed_count += 1
            return
        transport.sendto(reply, address)

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 - whatever it is
        """Count what the system says of an earlier reply: its receiver is gone."""
        self.failed_count += 1
