"""Places at which clients come in, by TLS or without it: of a server, or of a front.

The options of each address and the files of TLS are checked before anything is bound. The files are read again when
they change, or when an operator asks. Each client that comes in is passed on; the door decides who it is.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from beanpole.access.access import WARNING_S
from beanpole.access.tokens import date_text
from beanpole.access.watch import LOOK_S, Watch, log_fault
from beanpole.errors import ExitCode, StartError
from beanpole.server.listener import address_text
from beanpole.server.places import TLS, Place, open_all

if TYPE_CHECKING:
    from beanpole.server.eventqueue import EventQueue
    from beanpole.server.handshakes import Handshakes
    from beanpole.server.logs import Logger
    from beanpole.server.tlscontext import Certificate, ServerContext
    from beanpole.server.tlsfilter import Filter

Enter = Callable[[int, Place, "Filter | None", "Certificate | None"], object]
"""Takes a client: its descriptor, where it came in, and what its handshake gave; it is to be served, or closed."""

TOLD = {
    "plain": ("no TLS", "connect with beanstalks://, or by stunnel: this listener speaks TLS alone"),
    "certificate": ("no client certificate", "show one that client-ca= of this listener has signed, and that holds"),
    "refused": (
        "TLS refused",
        "see what the client says: it needs the CA of --tls-cert, and to connect by a name that is in it",
    ),
}
"""Outcomes of handshakes that the log tells of, as who sets up a client or a server finds them, and what to do."""


class Entrance:
    """Where clients come in. Made before anything is bound; raises StartError."""

    def __init__(self, places: Iterable[Place], cert: str, key: str, *, has_users: bool | None = False) -> None:
        """`cert` and `key` are the files of TLS, empty: there are none.

        `has_users`: everybody has to be somebody; None: that is not known here, but in the server behind a router.
        """
        self.places = list(places)
        if bool(cert) != bool(key):
            raise StartError("--tls-cert and --tls-key belong together; give both", ExitCode.USAGE)
        if cert and not any(place.tls for place in self.places):
            why = "--tls-cert and --tls-key are for a listener with TLS: give -l tls:HOST as well"
            raise StartError(why, ExitCode.USAGE)
        self.has_key = bool(cert and key)
        self.has_users = has_users
        self.warned: set[float] = set()  # ends of certificates that were said to be near
        self.told: dict[str, int] = {}  # of how many handshakes was told, by their outcomes
        self.handshakes: Handshakes | None = None
        self.logger: Logger  # set before it is opened or looks
        self.on_reread: Callable[[], None] | None = None  # called when all certificates were read again
        self.check()
        try:
            self.contexts = {each: context_of(cert, key, each) for each in self.places if each.tls}
        except ValueError as error:
            raise StartError(str(error), ExitCode.USAGE) from error
        self.certificates = Watch([file for each in self.contexts.values() for file in each.files])

    def check(self) -> None:
        for place in self.places:
            wrong = place.check(has_users=self.has_users, has_key=self.has_key)
            if wrong:
                raise StartError(f"{place.text}: {wrong}", ExitCode.USAGE)

    def bind(self, port: int, handed: list[socket.socket], *, shared: bool = False) -> list[socket.socket]:
        """Bind all places, so that others may as well with `shared`; `handed` are the sockets of systemd.

        Raises StartError.
        """
        bound = open_all(self.places, port, handed, os.environ, shared=shared)
        self.places = [place.at(each) for place, each in zip(self.places, bound, strict=True)]
        self.check()
        return bound

    def addresses(self, listeners: Sequence[socket.socket]) -> list[str]:
        """Return where clients come in, as they may be written; of TLS ``tls:HOST:PORT``."""
        texts = map(address_text, listeners)
        return [
            text.replace("tcp:", TLS, 1) if place.tls else text for place, text in zip(self.places, texts, strict=True)
        ]

    def open(
        self,
        clients: "EventQueue",
        listeners: Sequence[socket.socket],
        loop: asyncio.AbstractEventLoop,
        enter: Enter,
    ) -> None:
        """Let clients in by all places, whose sockets listen; the loop is running.

        `enter` is called for those that have spoken TLS, and where there may be users for others, else the queue's.
        """
        self.enter = enter
        self.told = dict.fromkeys(TOLD, 0)
        self.place_of = {context: place for place, context in self.contexts.items()}
        if self.contexts:
            from beanpole.server.handshakes import Handshakes  # noqa: PLC0415 - without TLS nothing of it is needed

            self.handshakes = Handshakes(clients, loop, self.shaken)
        for place, each in zip(self.places, listeners, strict=True):
            if self.handshakes is not None and place.tls:
                self.handshakes.listen(each.fileno(), self.contexts[place])
            elif self.has_users is not False:
                clients.greet(each.fileno(), place.is_unix, partial(self.admit, place))
            else:
                clients.listen(each.fileno(), place.is_unix)

    def admit(self, place: Place, fd: int) -> None:
        """Let a client in that has connected without TLS."""
        self.enter(fd, place, None, None)

    def shaken(
        self, _now_ns: int, fd: int, tls: "Filter", certificate: "Certificate | None", context: "ServerContext"
    ) -> None:
        """Let a client in whose handshake is done."""
        self.enter(fd, self.place_of[context], tls, certificate)

    def reread(self) -> None:
        """Shake hands with the certificates that are there now."""
        are_right = True
        for context in self.contexts.values():
            try:
                context.reread()
            except ValueError as error:
                log_fault(self.logger.log, "certificates", str(error))
                are_right = False
        if are_right and self.on_reread is not None:
            self.on_reread()

    def check_files(self) -> None:
        """See that this user, too, can read the files of TLS. Raises StartError."""
        try:
            for context in self.contexts.values():
                context.reread()
        except ValueError as error:
            why = f"the fronts, which run as --user, can't read what they need: {error}"
            raise StartError(why, ExitCode.USAGE) from error

    def look_at_handshakes(self) -> None:
        """Say, each second at most, how many clients did not come in, and what to do."""
        counts = {} if self.handshakes is None else self.handshakes.counts
        for outcome, told in self.told.items():
            if (count := counts.get(outcome, told)) > told:
                self.told[outcome] = count
                event, advice = TOLD[outcome]
                self.logger.warning(event, clients=count - told, advice=advice)

    def look(self, now_s: float) -> None:
        """Do what is due each second; `now_s` is in seconds since 1970."""
        self.look_at_handshakes()
        if self.certificates.has_settled(now_s):
            self.reread()
        for context in self.contexts.values():
            if context.ends_at <= now_s + WARNING_S and context.ends_at not in self.warned:
                self.warned.add(context.ends_at)
                self.logger.warning("certificate ends", file=context.cert, at=date_text(context.ends_at))

    def look_on(self, loop: asyncio.AbstractEventLoop, wall: Callable[[], float] = time.time) -> None:
        """Look each second from now on."""
        self.look(wall())
        loop.call_later(LOOK_S, self.look_on, loop, wall)

    def facts(self, now_s: float) -> Mapping[str, float]:
        """Return what ``stats`` says of handshakes, and for how long the certificate is good."""
        counts = {} if self.handshakes is None else self.handshakes.counts
        found: dict[str, float] = {f"handshakes-{outcome}": count for outcome, count in counts.items()}
        if self.contexts:
            found["certificate-seconds-left"] = min(each.ends_at for each in self.contexts.values()) - now_s
        return found

    def close(self) -> None:
        """End the handshakes."""
        if self.handshakes is not None:
            self.handshakes.stop()


def context_of(cert: str, key: str, place: Place) -> "ServerContext":
    """Return how TLS is spoken at a place. Raises ValueError: a file is wrong."""
    from beanpole.server.handshakes import Handshakes  # noqa: F401, PLC0415 - see there; another user may not read it
    from beanpole.server.tlscontext import ServerContext  # noqa: PLC0415 - see open

    return ServerContext(cert, key, place.client_ca or None, place.certificate_required)
