"""How a front takes clients that come in by an entrance, and says in OPEN what they have shown (docs/link.md)."""

import asyncio
import gc
import mmap
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from beanpole.front.front import Front
from beanpole.protocol.evidence import Evidence
from beanpole.server import limits
from beanpole.server.entrance import Entrance
from beanpole.server.eventqueue import now_ns
from beanpole.server.listener import peer_text
from beanpole.server.loop import ServerLoop
from beanpole.server.places import Place, parse
from beanpole.server.sources import source_of

if TYPE_CHECKING:
    from beanpole.server.tlscontext import Certificate
    from beanpole.server.tlsfilter import Filter

NAME_NS = 10_000_000_000  # for which a user of the system keeps its name: the system may ask another machine for that
LOOK_S = 1.0  # from one look at what the server and the handshakes say to the next


def evidence_of(fd: int, place: Place, tls: "Filter | None", certificate: "Certificate | None") -> Evidence:
    """Return what a client has shown that has come in at a place."""
    uid = source_of(fd) if place.is_unix and not place.user else ""
    return Evidence(
        peer_text(fd),
        "tls" if tls is not None else "unix" if place.is_unix else "tcp",
        place.user,
        name_of(uid, now_ns() // NAME_NS) if isinstance(uid, int) else "",
        () if certificate is None else tuple(sorted(certificate.names)),
        None if certificate is None else certificate.ends_at,
    )


@lru_cache(1_024)
def name_of(uid: int, _since: int) -> str:
    """Return the name of the system's user, or the number of one that has none; it is asked once for each `_since`."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def enter(front: Front, fd: int, place: Place, tls: "Filter | None", certificate: "Certificate | None") -> None:
    """Let a client into a front, or close it, if there is more to say of it than OPEN may."""
    try:
        about = evidence_of(fd, place, tls, certificate).text()
    except ValueError as error:
        os.close(fd)
        front.observer.client_refused(place.text, str(error))  # type: ignore[attr-defined]
        return
    front.admit(fd, place.is_unix, tls, about, (place, certificate))


def entrance_of(arguments: Sequence[str], given: Mapping[str, str], listeners: Sequence[socket.socket]) -> Entrance:
    """Return where clients come in, by the arguments of a front. Raises StartError: a file is wrong."""
    texts = [each.removeprefix("--listen=") for each in arguments if each.startswith("--listen=")]
    places = [parse(text).at(each) for text, each in zip(texts, listeners, strict=True)]
    return Entrance(places, given["tls-cert"], given["tls-key"], has_users=given["users"] == "True")


class Numbers:
    """What a front with an entrance has in the memory that fronts share: see :mod:`beanpole.server.fronts`."""

    def __init__(self, memory: memoryview, number: int, entrance: Entrance) -> None:
        self.memory = memory
        self.entrance = entrance
        self.rereads = memory[limits.FRONT_REREADS]
        self.at = limits.FRONT_HANDSHAKES + number * len(self.counts())
        self.before = list(memory[self.at : self.at + len(self.counts())])  # of one that had this number before

    def counts(self) -> list[int]:
        handshakes = self.entrance.handshakes
        return [] if handshakes is None else list(handshakes.counts.values())

    def look(self) -> None:
        """Read certificates if the server has, and show how handshakes have ended."""
        if self.memory[limits.FRONT_REREADS] != self.rereads:
            self.rereads = self.memory[limits.FRONT_REREADS]
            self.entrance.reread()
        self.entrance.look_at_handshakes()
        for at, (before, count) in enumerate(zip(self.before, self.counts(), strict=True), self.at):
            self.memory[at] = before + count


def run(front: Front, entrance: Entrance, listeners: Sequence[socket.socket], memory: mmap.mmap, number: int) -> None:
    """Carry clients that come in by an entrance until the link ends. Raises what a turn has raised."""
    failures: list[BaseException] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ServerLoop), "turns are run by that loop alone"
        ended = asyncio.Event()
        on_link_end = front.on_link_end
        assert on_link_end is not None

        def note_end(reason: str, channels: int) -> None:
            on_link_end(reason, channels)
            ended.set()

        def fail(_loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
            found = context.get("exception")
            failures.append(found if isinstance(found, BaseException) else RuntimeError(context.get("message")))
            ended.set()

        def look() -> None:
            numbers.look()
            loop.call_later(LOOK_S, look)

        front.on_link_end = note_end
        loop.set_exception_handler(fail)
        entrance.open(front, listeners, loop, partial(enter, front))
        numbers = Numbers(memoryview(memory).cast("q"), number, entrance)
        loop.serve(front)
        look()
        await ended.wait()
        entrance.close()
        loop.stop_serving()

    gc.freeze()
    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(main())
    for each in failures:
        raise each
