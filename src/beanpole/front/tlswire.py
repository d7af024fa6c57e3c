"""A connection with TLS to a server, from the handshake until the first lines of a link are through."""

import asyncio
import contextlib
import socket
import ssl

from beanpole.front.uplink import Wire
from beanpole.server.tlsfilter import Filter

HEADER_BYTES = 5  # of a record: its kind, its version, and the size of what follows
RECEIVE_BYTES = 16_384


class TlsWire(Wire):
    """A connection with TLS, of which a record at a time is given to OpenSSL: what is left is for who goes on."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, link: socket.socket, context: ssl.SSLContext, name: str | bytes
    ) -> None:
        super().__init__(loop, link)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        self.came = b""  # and was not given to OpenSSL

    async def shake_hands(self) -> None:
        """Raises OSError: it has failed."""
        while True:
            try:
                self.object.do_handshake()
            except ssl.SSLWantReadError:
                await super().send(self.outgoing.read())
                if not await self.take_record():
                    raise ConnectionResetError("the connection ended in the middle of the TLS handshake") from None
                continue
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    await super().send(self.outgoing.read())  # says why
                raise
            return await super().send(self.outgoing.read())

    async def take_record(self) -> bool:
        """Give OpenSSL the next record. False: there is none any more."""
        while len(self.came) < (size := HEADER_BYTES + int.from_bytes(self.came[3:HEADER_BYTES])):
            if not (data := await self.loop.sock_recv(self.link, RECEIVE_BYTES)):
                return False
            self.came += data
        self.incoming.write(self.came[:size])
        self.came = self.came[size:]
        return True

    async def send(self, data: bytes) -> None:
        self.object.write(data)
        await super().send(self.outgoing.read())

    async def receive(self) -> bytes:
        while await self.take_record():
            with contextlib.suppress(ssl.SSLWantReadError):
                return self.object.read(RECEIVE_BYTES)
        return b""

    @property
    def tls(self) -> Filter:  # type: ignore[override]
        return Filter(self.object, self.incoming, self.outgoing, self.came)
