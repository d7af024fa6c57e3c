"""How a server starts: bind, become the user, listen, report that we are ready.

Stop (SIGTERM, SIGINT): stop accepting, finish the turn, make it durable, send what that sets free, close. That is
:class:`beanpole.server.host.Host`.
"""

import asyncio
import gc
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from beanpole import limits as shared_limits
from beanpole.errors import ExitCode
from beanpole.server import early, listener
from beanpole.server.host import Host, RoleSource
from beanpole.server.logs import Logger, open_logger
from beanpole.server.loop import ServerLoop
from beanpole.server.process import become_user, raise_descriptor_limit, remove_ready_file
from beanpole.server.roles import AlwaysLeads
from beanpole.server.settings import Settings

if TYPE_CHECKING:
    from beanpole.server.clusterroles import Passing
    from beanpole.server.door import Door
    from beanpole.server.fronts import Fronts
    from beanpole.server.supervisor import Supervisor

    MakeConsole = Callable[[Settings, socket.socket, list[socket.socket], Logger], Supervisor]

GC_THRESHOLDS = (10_000, 100, 100)
"""The engine makes no cycles, so a collection finds nothing; a rare one is for what the libraries leave.

One of the first generation takes 2 ms, also in a thread: all wait for it.
"""


def roles_for(settings: Settings, passing: "Passing | None") -> Callable[[Host], RoleSource]:
    """Return what makes the role source that the settings ask for."""
    if settings.cluster is None:
        return AlwaysLeads
    from beanpole.server.cluster import ClusterNode  # noqa: PLC0415 - most servers are none

    assert passing is not None, "a node passes clients on"
    return partial(ClusterNode, passing=passing)


def loop_for(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the loop: a node's talks to PostgreSQL most of the time, a server alone to its clients."""
    if settings.cluster is None:
        return ServerLoop
    import uvloop  # noqa: PLC0415 - most servers are no nodes

    return uvloop.new_event_loop


def open_console(
    settings: Settings, http: socket.socket, listeners: list[socket.socket], logger: Logger
) -> "Supervisor":
    """Return what starts the server's console when clients are answered."""
    from beanpole.server import supervisor  # noqa: PLC0415 - most servers have none

    name = settings.node or listener.name_of(listeners[0])
    key = os.urandom(32) if settings.access else b""
    return supervisor.Supervisor(http, supervisor.command_of(settings, name), logger, key=key)


def open_fronts(settings: Settings, listeners: list[socket.socket], logger: Logger, door: "Door | None") -> "Fronts":
    """Return what starts the processes that accept clients. Raises StartError: they can't read what they need."""
    from beanpole.server import fronts  # noqa: PLC0415 - most servers have none

    return fronts.Fronts(settings, listeners, logger, None if door is None else door.entrance)


def open_door(settings: Settings) -> "Door | None":
    """Return who comes in, with all files read; None: it does not matter who, and where. Raises StartError."""
    files = settings.access or settings.tokens or settings.tls_cert or settings.tls_key
    if not files and not any(map(listener.says_more, settings.listen)):
        return None
    from beanpole.server import door  # noqa: PLC0415 - most servers have none

    return door.open_door(settings)


def bind(settings: Settings, door: "Door | None", handed: list[socket.socket]) -> list[socket.socket]:
    """Return the sockets to listen on. Raises StartError."""
    if door is not None:
        return door.entrance.bind(settings.port, handed)
    return early.opened or listener.open_all(settings.listen, settings.port)


def serve(settings: Settings, make_console: "MakeConsole" = open_console, passing: "Passing | None" = None) -> ExitCode:
    """Run a server until a signal stops it; return the exit code of the process.

    `make_console` is called in the loop if HTTP is to be served. `passing` is how a node of a cluster passes clients on
    to the one that leads. Raises StartError: it can't start.
    """
    logger = open_logger(settings.log_format)
    descriptors_max = raise_descriptor_limit()
    listeners = listener.inherited(os.environ)
    door = open_door(settings)
    if listeners and settings.listen and door is None:
        logger.warning("listen ignored", reason="systemd handed over the sockets")
    files: dict[str, tuple[int, int]] = {}
    http = listener.bind_http(settings.http, shared_limits.HTTP_PORT_DEFAULT) if settings.http else None
    if door is not None or not listeners:
        listeners = bind(settings, door, listeners)
        files = listener.socket_files(listeners)
    if settings.ready_file is not None:
        remove_ready_file(settings.ready_file)
    if settings.user is not None:
        # The user may not be allowed to read the program.
        import beanpole.server.link  # noqa: PLC0415 - most servers have none

        if settings.data_dir is not None:
            import beanpole.server.directory  # noqa: PLC0415 - only a server with a log has one
        if settings.fronts:
            import beanpole.server.fronts  # noqa: F401, PLC0415 - most servers have none
        roles_for(settings, passing)
        become_user(settings.user)

    async def main() -> ExitCode:
        console = None if http is None else make_console(settings, http, listeners, logger)
        host = Host(settings, listeners, logger, descriptors_max, console)
        host.guard(door)
        if settings.fronts:
            host.fronts = open_fronts(settings, listeners, logger, door)
        return await host.run(roles_for(settings, passing))

    if settings.http or settings.fronts:
        from beanpole.process.child import keep_to_ourselves  # noqa: PLC0415 - most servers have no processes

        keep_to_ourselves()

    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        with asyncio.Runner(loop_factory=loop_for(settings)) as runner:
            return runner.run(main())
    finally:
        listener.remove_socket_files(files)
