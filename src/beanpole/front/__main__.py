"""``python -m beanpole.front``: a process that a server with ``--fronts`` has started, and that ends with its link.

It has the link as descriptor 3, the memory that fronts share as 4, and the listening sockets behind. Signals are the
server's: whoever sends one to all processes of a service means the server.
"""

import gc
import mmap
import resource
import signal
import socket
import sys

from beanpole.errors import ExitCode, StartError
from beanpole.front import limits
from beanpole.front.front import Front
from beanpole.protocol.link import FrameReader, first_line, read_link_line
from beanpole.server import limits as server_limits
from beanpole.server.logs import open_logger
from beanpole.server.observer import Observer

LINK_FD, MEMORY_FD, LISTENERS_FD = 3, 4, 5


def main(arguments: list[str]) -> int:
    """Carry clients until the link ends; return the exit code. The arguments are those of `beanpole.server.fronts`."""
    given = dict(each.removeprefix("--").split("=", 1) for each in arguments)
    number, front_count = int(given["number"]), int(given["of"])
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(each, signal.SIG_IGN)
    logger = open_logger(given["log-format"])
    listeners = [socket.socket(fileno=fd) for fd in range(LISTENERS_FD, LISTENERS_FD + int(given["listeners"]))]
    entrance = None
    if "listen" in given:
        from beanpole.front import entering  # noqa: PLC0415 - with plain addresses nothing of it is needed

        try:
            entrance = entering.entrance_of(arguments, given, listeners)
        except StartError as error:
            logger.log("error", "front can't start", front=number, reason=str(error))
            return ExitCode.FAILED
    link = socket.socket(fileno=LINK_FD)
    reader = FrameReader(of_front=False)
    try:
        line = greet(link, reader)
    except OSError:
        return ExitCode.OK  # the server is gone
    if read_link_line(line) is None:
        logger.error("link closed", link=f"front {number}", channels=0, reason="first line")
        return ExitCode.FAILED
    descriptors_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - limits.DESCRIPTORS_RESERVED
    connections_max = min(int(given["connections-max"]), descriptors_max)
    memory = mmap.mmap(MEMORY_FD, server_limits.FRONT_MEMORY_BYTES)
    front = Front(
        Observer(logger, limited=connections_max < descriptors_max),
        connections_max,
        memory,
        number - 1,
        front_count,
        one_reply_per_send=given["one-reply-per-send"] == "True",
    )
    ends: list[tuple[str, int]] = []
    front.on_link_end = lambda *about: ends.append(about)
    front.attach(link.detach(), reader, asks=False)
    if entrance is None:
        gc.disable()  # what comes and goes is in no cycle
        for listener in listeners:
            front.listen(listener.fileno(), listener.family == socket.AF_UNIX)
        front.run()
    else:
        entrance.logger = logger
        entering.run(front, entrance, listeners, memory, number - 1)
    reason, channels = ends[0]
    if reason != "ended":
        logger.error("link closed", link=f"front {number}", channels=channels, reason=reason)
        return ExitCode.FAILED
    return ExitCode.OK


def greet(link: socket.socket, reader: FrameReader) -> bytes:
    """Exchange the first lines; return the server's, empty if it is none. Raises OSError: the server is gone."""
    link.sendall(first_line())
    while True:
        data = link.recv(1024)
        if not data:
            raise OSError("the server is gone")
        reader.receive(data)
        line = reader.take_line()
        if line is not None or reader.mistake is not None:
            link.setblocking(False)
            return line or b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
