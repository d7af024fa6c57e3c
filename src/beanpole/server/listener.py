"""Sockets to listen on: from an address as a user writes it, or from systemd, to a bound socket and back to text.

They are bound at once, so that a server that can't have its port says so early, and listen when clients are answered.
"""

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Mapping

from beanpole.errors import ExitCode, StartError

HTTP_BIND_TRIES = 40  # how often the address of the console is bound at a start while something else has it
HTTP_BIND_PAUSE_S = 0.05
"""Seconds between these: a console whose server was killed needs about a tenth of a second to end."""

UNIX_NEXT = ".next"  # what the path of a Unix socket ends with until it takes the place of another
UNIX = "unix:"  # what the address of a Unix socket begins with; the path follows
SYSTEMD_FIRST_FD = 3  # the first descriptor that a socket unit hands over (sd_listen_fds(3))


def says_more(text: str) -> bool:
    """Whether a place to listen is more than an address: see :mod:`beanpole.server.places`."""
    return "," in text or text.startswith(("tls:", "fd:"))


def check_plain(text: str) -> None:
    """Raise ValueError: a place to listen is no plain address."""
    if says_more(text):
        raise ValueError(f"{text!r} needs a closer look")
    check_address(text)


def check_address(text: str) -> None:
    """Raise ValueError with what is wrong with an address as a user wrote it."""
    if not text.startswith(UNIX):
        split_address(text, 0)
    elif text == UNIX:
        raise ValueError(f"{text!r} names no path; write unix:PATH")


def split_address(text: str, port: int) -> tuple[str, int]:
    """Split ``HOST``, ``HOST:PORT``, ``[IPv6]`` or ``[IPv6]:PORT`` into host and port; `port` where it names none.

    Raises ValueError: it is none of these; the text says what is wrong.
    """
    host, separator, rest = text, "", ""
    if text.startswith("["):
        host, bracket, tail = text[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise ValueError(f"{text!r} is not an address; write [IPv6] or [IPv6]:PORT")
        separator, rest = tail[:1], tail[1:]
    elif text.count(":") == 1:
        host, separator, rest = text.partition(":")
    if not host:
        raise ValueError(f"{text!r} names no host; write HOST:PORT")
    if not separator:
        return host, port
    if not rest.isascii() or not rest.isdigit() or int(rest) > 65535:
        raise ValueError(f"{text!r} has no port from 0 to 65535 behind the colon")
    return host, int(rest)


def bind_unix(path: str, *, shared: bool = False) -> socket.socket:
    """Bind a Unix socket. A socket file that nobody listens at is left over and replaced; any other file is not.

    With `shared` also one at which somebody listens: who is connected there stays so, and new clients come here from
    `take_paths` on.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            if is_answered(path):
                if shared:
                    return succeed_unix(listener, path)
                raise OSError(errno.EADDRINUSE, "another server listens there")
            os.unlink(path)  # noqa: PTH108 - pathlib would be a twentieth of the start
    except FileNotFoundError:
        pass
    listener.bind(path)
    return listener


def succeed_unix(listener: socket.socket, path: str) -> socket.socket:
    """Bind a Unix socket beside one at which somebody listens."""
    bound = f"{path}.{os.getpid()}{UNIX_NEXT}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(bound)  # noqa: PTH108 - see above
    listener.bind(bound)
    return listener


def take_paths(listeners: Iterable[socket.socket]) -> None:
    """Move our sockets to the paths where others listen. Ours listen already, so no client is refused during the move.

    Raises StartError: this user may not rename files there.
    """
    for each in listeners:
        name, path = each.getsockname(), unix_path(each)
        if each.family == socket.AF_UNIX and name != path:
            try:
                with contextlib.suppress(FileNotFoundError):  # another of our processes was first
                    os.rename(name, path)  # noqa: PTH104 - see above
            except OSError as error:
                raise StartError(f"cannot take {path}: {error.strerror}", ExitCode.CANNOT_LISTEN) from error


def unix_path(listener: socket.socket) -> str:
    """Return the path of a Unix socket, to which its file is renamed if somebody else has it yet."""
    name = str(listener.getsockname())
    return name.removesuffix(UNIX_NEXT).rpartition(".")[0] if name.endswith(UNIX_NEXT) else name


def is_answered(path: str) -> bool:
    """Whether somebody listens at a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # As many clients as it allows wait to be accepted.
            return True
        return True


def socket_files(listeners: list[socket.socket]) -> dict[str, tuple[int, int]]:
    """Return the files of Unix sockets that were just bound, with what shows later that they are still the same."""
    bound = [each for each in listeners if each.family == socket.AF_UNIX]
    return {path: identity(each.getsockname()) for each in bound for path in (each.getsockname(), unix_path(each))}


def identity(path: str) -> tuple[int, int]:
    """Return what tells a file from others that come to stand at its path: device and inode."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def remove_socket_files(files: dict[str, tuple[int, int]]) -> None:
    """Remove the files of our Unix sockets, unless another server has replaced them. A failure is no reason to fail."""
    for path, bound in files.items():
        with contextlib.suppress(OSError):
            if identity(path) == bound:
                os.unlink(path)  # noqa: PTH108 - see above


def bind_tcp(
    family: socket.AddressFamily, address: tuple[object, ...], *, dual_stack: bool = False, shared: bool = False
) -> socket.socket:
    """Bind a TCP address. Accepted sockets inherit the options. With `shared` others may bind it who say so."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual_stack else 1)
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def bind_everywhere(port: int, *, shared: bool = False) -> socket.socket:
    """Bind every address, IPv6 and IPv4 in one socket where the system has IPv6."""
    try:
        return bind_tcp(socket.AF_INET6, ("::", port), dual_stack=True, shared=shared)
    except OSError:
        return bind_tcp(socket.AF_INET, ("", port), shared=shared)


def bind(address: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind one address as the user wrote it. Raises StartError: it can't be resolved or bound."""
    where = address
    try:
        if address.startswith(UNIX):
            return bind_unix(address.removeprefix(UNIX), shared=shared)
        host, port = split_address(address, port)
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # A str would be encoded by the codec for names that are not ASCII, whose import takes a millisecond.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, target = found[0]
        return bind_tcp(family, target, shared=shared)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StartError(f"cannot listen on {where}: {reason}", ExitCode.CANNOT_LISTEN) from error


def is_taken(error: StartError) -> bool:
    """Whether an address can't be bound as something else has it, which may end."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE


def bind_http(address: str, port: int, pause: Callable[[float], None] = time.sleep) -> socket.socket:
    """Bind the console's address; wait for it a moment, which the console of a server that was killed needs to end.

    Raises StartError: it can't be resolved or bound.
    """
    for left in reversed(range(HTTP_BIND_TRIES)):
        try:
            return bind(address, port)
        except StartError as error:
            if not left or not is_taken(error):
                raise
        pause(HTTP_BIND_PAUSE_S)
    raise AssertionError("there is a last try")


def inherited(environment: Mapping[str, str]) -> list[socket.socket]:
    """Return the sockets that systemd handed to this process (sd_listen_fds(3)); none when it did not start us."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = environment.get("LISTEN_FDS", "0")
    if not count.isdigit():
        raise StartError(f"LISTEN_FDS is {count!r}, not a number of sockets", ExitCode.CANNOT_LISTEN)
    try:
        return [socket.socket(fileno=fd) for fd in range(SYSTEMD_FIRST_FD, SYSTEMD_FIRST_FD + int(count))]
    except OSError as error:
        message = f"LISTEN_FDS is {count}, but not so many sockets were handed over: {error.strerror}"
        raise StartError(message, ExitCode.CANNOT_LISTEN) from error


def open_all(addresses: tuple[str, ...], port: int, *, shared: bool = False) -> list[socket.socket]:
    """Bind every address, or everywhere when there is none; all or nothing.

    With `shared` those who listen there already, and said so as well, go on, and new clients come to either.
    """
    opened: list[socket.socket] = []
    try:
        if not addresses:
            opened.append(bind_everywhere(port, shared=shared))
        opened.extend(bind(address, port, shared=shared) for address in addresses)
    except OSError as error:
        raise StartError(f"cannot listen on port {port}: {error.strerror}", ExitCode.CANNOT_LISTEN) from error
    except StartError:
        for each in opened:
            each.close()
        raise
    return opened


def peer_text(fd: int) -> str:
    """Return the address of the other end of a socket, as far as there still is one."""
    peer = socket.socket(fileno=fd)
    try:
        name = peer.getpeername()
    except OSError:
        return "gone"
    finally:
        peer.detach()
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "unix"


def address_text(listener: socket.socket) -> str:
    """Return a bound address as ``tcp:HOST:PORT``, ``tcp:[IPv6]:PORT`` or ``unix:PATH``."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{unix_path(listener)}"
    host, port = name[:2]
    return f"tcp:[{host}]:{port}" if listener.family == socket.AF_INET6 else f"tcp:{host}:{port}"


def reaches(address: str, listeners: Iterable[socket.socket], port: int) -> bool:
    """Whether a connection to an address would reach one of these sockets. A name without an address reaches none."""
    if address.startswith(UNIX):
        path = os.path.realpath(address.removeprefix(UNIX))
        return any(each.family == socket.AF_UNIX and os.path.realpath(unix_path(each)) == path for each in listeners)
    host, port = split_address(address, port)
    bound = [each for each in listeners if each.family != socket.AF_UNIX and each.getsockname()[1] == port]
    with contextlib.suppress(OSError):
        for family, _, _, _, target in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM) if bound else []:
            if any(each.getsockname()[0] == target[0] for each in bound):
                return True
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((target[0], 0))  # it is one of this machine's
                return any(map(is_on_all_addresses, bound))
    return False


def is_on_all_addresses(listener: socket.socket) -> bool:
    return listener.family != socket.AF_UNIX and listener.getsockname()[0] in {"0.0.0.0", "::"}


def is_off_loopback(listener: socket.socket) -> bool:
    """Whether other machines may reach a socket."""
    return listener.family != socket.AF_UNIX and not str(listener.getsockname()[0]).startswith(("127.", "::1"))


def name_of(listener: socket.socket) -> str:
    """Return what others may call a server that listens here: where it listens on every address, with its host."""
    if listener.family == socket.AF_UNIX:
        return f"{os.uname().nodename}:{unix_path(listener)}"
    port = listener.getsockname()[1]
    if is_on_all_addresses(listener):
        return f"{os.uname().nodename}:{port}"
    return address_text(listener).removeprefix("tcp:")
