"""A server alone as a role source: it always leads. A node of a cluster is one in :mod:`beanpole.server.cluster`."""

import asyncio
import socket
from contextlib import ExitStack
from typing import Any

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.host import Host
from beanpole.server.loop import ServerLoop
from beanpole.server.turn import Turn


class AlwaysLeads:
    """A server whose clients are served here, from the start to the end."""

    def __init__(self, host: Host) -> None:
        self.host = host
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ServerLoop), "a server alone has a loop of its own"
        self.loop = loop
        self.engine, self.log, clock_offset_ns, self.opened = open_log(host, self.loop)
        host.equip(self.engine)
        self.clients = open_clients(host, self.engine, self.log, clock_offset_ns)
        host.facts.turn = self.clients.turn

    def start(self) -> None:
        """Begin to sync, to listen and to serve."""
        self.log.start(self.clients.send_held, self.fail_log)
        for each in self.host.listeners:
            each.listen(limits.BACKLOG)
            if self.host.fronts is None and self.host.door is None:
                self.clients.listen(each.fileno(), each.family == socket.AF_UNIX)
        if self.host.door is not None:
            listeners = self.host.listeners if self.host.fronts is None else None
            self.host.door.open(self.clients, listeners, self.host.logger, self.loop)
            self.host.facts.parts.append(self.host.door.facts)
        self.loop.serve(self.clients)
        self.clients.run_soon()  # what is due does not wait for a client
        if self.host.console is not None:
            self.host.console.serve_by(self.clients)
        if self.host.fronts is None:
            self.host.facts.parts.append(self.clients.link_facts)
            self.host.ready()
        else:
            self.host.facts.parts.append(self.host.fronts.facts)
            self.host.fronts.start(self.clients, self.host.ready, self.host.stop_at_once)

    def drain(self) -> None:
        """Take no more jobs; those that are there can still be worked off."""
        self.engine.draining = True
        effect = "put is answered with DRAINING until the next start"
        self.host.logger.info("draining", reason="SIGUSR1", effect=effect)

    def stop_turns(self) -> None:
        self.clients.turn.stop()

    async def stop(self) -> None:
        """Finish the turn, make it durable, send what that sets free, and close; after a failure only close."""
        self.clients.stop_accepting()
        self.loop.stop_serving()
        if self.host.exit_code == ExitCode.OK:
            self.engine.give_back()
            try:
                self.log.close()
            except OSError as error:
                self.fail_log(error)
            else:
                self.clients.send_held()
                for each in list(self.clients.carriers.values()):
                    each.send_rest()
        if self.host.door is not None:
            self.host.door.close()
        self.clients.close_all()
        self.opened.close()

    def fail_log(self, error: OSError) -> None:
        """Stop at once: what is on disk is all that can be promised."""
        self.host.stop_at_once("log failed", reason=str(error), directory=str(self.host.settings.data_dir))


def open_log(host: Host, loop: asyncio.AbstractEventLoop) -> tuple[Engine, Log, int, ExitStack]:
    """Return an engine with its log, the engine's clock minus the monotonic one, and what is to be closed in the end.

    Raises StartError: the log that the settings ask for can't be opened.
    """
    settings = host.settings
    if settings.data_dir is not None:
        from beanpole.server.directory import open_directory  # noqa: PLC0415 - see there

        return open_directory(settings.data_dir, settings, host.facts, host.observer, loop)
    log = Log()
    engine = Engine(settings.body_bytes_max, now_ns(), lambda: {**host.facts(), **log.facts()}, log.records)
    engine.set_shard(settings.shard)
    return engine, log, 0, ExitStack()


def open_link(clients: EpollTransport, fd: int, came: bytes, *more: Any) -> None:  # noqa: ANN401 - as there
    """Serve the clients of a front that has connected as a client does."""
    from beanpole.server import link  # noqa: PLC0415 - most servers have none

    link.open_link(clients, fd, came, *more)


def open_clients(host: Host, engine: Engine, log: Log, clock_offset_ns: int) -> EpollTransport:
    """Return what serves clients with an engine, as soon as it listens."""
    turn = Turn(engine, log, host.settings.one_reply_per_send)
    clients = EpollTransport(turn, asyncio.get_running_loop(), host.observer, host.settings.connections_max)
    clients.sockets_max = host.descriptors_free
    clients.open_link = open_link
    clients.clock_offset_ns = clock_offset_ns
    clients.observe_connections = host.settings.verbose_count > 0
    return clients
