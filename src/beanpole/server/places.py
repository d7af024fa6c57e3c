"""Where a server listens, with what is said of it behind the address: ``tls:HOST:PORT,client-ca=FILE,user=NAME``.

Only a server that has such a place imports this: an address alone is read by :mod:`beanpole.server.listener`.
"""

import grp
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from beanpole import limits
from beanpole.access.tokens import NAME, NAME_FORM
from beanpole.errors import ExitCode, StartError
from beanpole.server import listener

TLS = "tls:"  # what the address of a listener that speaks TLS begins with
FD = "fd:"  # what that of a socket begins with that systemd hands over; its FileDescriptorName follows


@dataclass(frozen=True, slots=True)
class Place:
    """One place where a server listens."""

    text: str
    """As the user wrote it."""

    address: str
    """What stands in front of the first comma, without ``tls:``."""

    tls: bool = False
    client_ca: str = ""
    """The file of those who sign certificates of clients; empty: clients show none."""

    certificate_required: bool = True
    """Whether a client without a certificate is closed; only with `client_ca`."""

    user: str = ""
    """Who everybody is that connects here; empty: a certificate, a uid or a token says so."""

    mode: int | None = None
    """The permissions of a Unix socket; None: as the umask says."""

    group: int | None = None
    """The number of the group of a Unix socket; None: the process's."""

    @property
    def is_unix(self) -> bool:
        return self.address.startswith(listener.UNIX)

    @property
    def secure(self) -> bool:
        """Whether nobody between can read what comes here, so that a token may."""
        return self.tls or self.is_unix

    @property
    def is_for_nodes(self) -> bool:
        """Whether the other nodes of a cluster may come in here: by TLS, and without a certificate."""
        return self.tls and not (self.client_ca and self.certificate_required)

    def at(self, bound: socket.socket) -> "Place":
        """Return the place as what it is: a socket of systemd is a Unix socket, or a port."""
        if not self.address.startswith(FD):
            return self
        return replace(self, address=listener.address_text(bound).removeprefix("tcp:"))

    def check(self, *, has_users: bool | None, has_key: bool) -> str:
        """What is wrong with this place on such a server; empty: nothing."""
        if self.tls and not has_key:
            return "a place with tls: needs --tls-cert and --tls-key"
        if self.user and has_users is False:
            return "user= needs the file of users: give --access as well"
        if has_users and not (self.secure or self.user or self.address.startswith(FD)):
            return "nobody can be anybody there: over plain TCP there is no certificate and no token, so add user=NAME"
        return ""

    def prepare(self, bound: socket.socket) -> None:
        """Give the file of a Unix socket its permissions and group. Nobody can connect yet. Raises StartError."""
        if bound.family != socket.AF_UNIX:
            return
        path = str(bound.getsockname())
        try:
            if self.group is not None:
                os.chown(path, -1, self.group)
            if self.mode is not None:
                os.chmod(path, self.mode)  # noqa: PTH101 - as the others here
        except OSError as error:
            raise StartError(f"{self.text}: {error.strerror}", ExitCode.CANNOT_LISTEN) from error


def client_cert_of(value: str) -> dict[str, object]:
    if value not in {"required", "optional"}:
        raise ValueError(f"client-cert= is required or optional, not {value!r}")
    return {"certificate_required": value == "required"}


def mode_of(value: str) -> dict[str, object]:
    if not re.fullmatch(r"0?[0-7]{3}", value):
        raise ValueError(f"mode= is three octal digits, as in 0660, not {value!r}")
    return {"mode": int(value, 8)}


def user_of(value: str) -> dict[str, object]:
    if not NAME.fullmatch(value):
        raise ValueError(f"user={value}: {NAME_FORM}")
    return {"user": value}


def group_of(value: str) -> dict[str, object]:
    try:
        return {"group": grp.getgrnam(value).gr_gid}
    except KeyError:
        raise ValueError(f"group=: there is no group {value!r}") from None


def client_ca_of(value: str) -> dict[str, object]:
    if not value:
        raise ValueError("client-ca= is empty")
    return {"client_ca": value}


READERS: dict[str, tuple[str, Callable[[str], dict[str, object]]]] = {
    "client-ca": ("tls", client_ca_of),
    "client-cert": ("tls", client_cert_of),
    "user": ("any", user_of),
    "mode": ("unix", mode_of),
    "group": ("unix", group_of),
}
"""What may stand behind an address: where, and what reads it."""


def parse(text: str) -> Place:
    """Read a place as a user wrote it. Raises ValueError, which says what is wrong with it."""
    address, *options = text.split(",")
    tls = address.startswith(TLS)
    address = address.removeprefix(TLS)
    if tls and address.startswith((listener.UNIX, FD)):
        raise ValueError(f"{text!r}: behind tls: stands HOST or HOST:PORT")
    if not address.startswith(FD):
        listener.check_address(address)
    found: dict[str, object] = {}
    for each in options:
        name, sign, value = each.partition("=")
        if not sign or name not in READERS:
            raise ValueError(f"{text!r}: behind an address may stand {', '.join(f'{one}=' for one in READERS)}")
        where, read = READERS[name]
        if (where == "tls" and not tls) or (where == "unix" and not address.startswith(listener.UNIX)):
            raise ValueError(f"{text!r}: {name}= is for an address that begins with {where}:")
        read_value = read(value)
        if read_value.keys() & found.keys():
            raise ValueError(f"{text!r}: {name}= is there twice")
        found |= read_value
    if "certificate_required" in found and "client_ca" not in found:
        raise ValueError(f"{text!r}: client-cert= needs client-ca=FILE")
    return Place(text, address, tls, **found)  # type: ignore[arg-type]


def open_all(
    places: Iterable[Place],
    port: int,
    handed: list[socket.socket],
    environment: Mapping[str, str],
    *,
    shared: bool = False,
) -> list[socket.socket]:
    """Bind each place, or take the socket that systemd handed over for it; all or nothing. Raises StartError."""
    opened: list[socket.socket] = []
    by_name = dict(zip(environment.get("LISTEN_FDNAMES", "").split(":"), handed, strict=False))
    try:
        for place in places:
            if place.address.startswith(FD):
                opened.append(handed_over(place, by_name))
                continue
            opened.append(listener.bind(place.address, limits.TLS_PORT_DEFAULT if place.tls else port, shared=shared))
            place.prepare(opened[-1])
    except StartError:
        for each in opened:
            each.close()
        raise
    return opened


def handed_over(place: Place, by_name: Mapping[str, socket.socket]) -> socket.socket:
    name = place.address.removeprefix(FD)
    if name not in by_name:
        raise StartError(
            f"systemd handed over no socket {name}: a socket unit names it by FileDescriptorName=",
            ExitCode.CANNOT_LISTEN,
        )
    return by_name[name]
