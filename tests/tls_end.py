"""An end of TLS in front of a server that has none: decrypts, and answers `auth` in the server's place."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from beanpole.address import Address, OneAddress
from tests.unit.client.test_login import AUTH, TOKEN, server_context

__all__ = ["TOKEN", "tls_end"]


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


class End:
    """What it serves: `is_open` says whether the token is still known, `closes` ends all connections."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._over = asyncio.Event()
        self.is_open = True
        self.port = 0
        self.ready = threading.Event()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            line = await reader.readuntil(b"\n")
            if not (self.is_open and line == AUTH[0]):
                writer.write(b"NOT_AUTHENTICATED\r\n")
                writer.close()
                return
            writer.write(AUTH[1])
            behind = await asyncio.open_connection(self._address.host, self._address.port)
            await asyncio.gather(carry(reader, behind[1]), carry(behind[0], writer))
        writer.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0, ssl=server_context())
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        async with server:
            await self._over.wait()

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def _close_connections(self) -> None:
        for each in self._writers:
            each.transport.abort()

    def shut(self) -> None:
        """Forget the token, and end all connections."""
        self.is_open = False
        self._loop.call_soon_threadsafe(self._close_connections)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._close_connections)
        self._loop.call_soon_threadsafe(self._over.set)


@contextmanager
def tls_end(address: OneAddress) -> Iterator[End]:
    """Serve the server at an address over TLS, on 127.0.0.1 with the certificate of `localhost`."""
    end = End(Address.of(address))
    thread = threading.Thread(target=end.run)
    thread.start()
    end.ready.wait()
    try:
        yield end
    finally:
        end.stop()
        thread.join()
