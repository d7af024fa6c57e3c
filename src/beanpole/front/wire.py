"""A connection to a server until the first lines of a link are through."""

import asyncio
import socket

from beanpole.protocol.limits import LINK_LINE_BYTES_MAX
from beanpole.server.tlsfilter import Filter


class Wire:
    """A connection without TLS."""

    tls: Filter | None = None
    """What goes on to encrypt the connection; None: it is not encrypted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, link: socket.socket) -> None:
        self.loop = loop
        self.link = link

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.link, data)

    async def receive(self) -> bytes:
        """Return what has come; empty: that was all."""
        return await self.loop.sock_recv(self.link, LINK_LINE_BYTES_MAX)
