"""``beanpole route``: clients' sockets in processes of their own, for a server or cluster elsewhere."""

import asyncio
import functools
import mmap
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beanpole import limits as shared_limits
from beanpole.address import SCHEME, TLS_SCHEME, Address
from beanpole.cli.common import URL, login_of, login_options, nodes_of
from beanpole.cli.quantities import Duration, notes_of
from beanpole.cli.serve import check_listen, made, option
from beanpole.cli.wrapping import SETTINGS
from beanpole.errors import ExitCode
from beanpole.server.limits import FRONT_SLOT, FRONTS_MAX
from beanpole.server.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from beanpole.front.router import Router, Settings
    from beanpole.process.crew import Lifeline
    from beanpole.server.entrance import Entrance
    from beanpole.server.logs import Logger

METRICS_PORT_DEFAULT = 11382  # the one behind a worker's
RESERVED = 24  # file descriptors of a process that are no clients'

EXIT_CODES = """\b
Exit codes:
  0    stopped by SIGTERM or SIGINT
  1    a fault; the last line of the log says which
  2    what listens at the addresses of --to takes no links
  5    wrong arguments
  33   the user does not exist, or the router may not become it
  111  an address can't be resolved or bound
"""

SHARED = ("listen", "port", "user", "tls_cert", "tls_key", "connections_max", "ready_file", "log_format")
"""Options that are those of `beanpole serve`, by their settings."""


def check_to(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses of the servers, each once."""
    found = targets_of(map(Address.from_url, value))
    twice = next((each for each in found if found.count(each) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice} is there twice", ctx, parameter)
    return tuple(found)


def shared_options(command: "click.decorators.FC") -> "click.decorators.FC":
    for row in reversed(OPTIONS):
        if row.setting in SHARED:
            command = made(row)(command)
    return command


@click.command(context_settings=SETTINGS)
@option(
    "--to",
    type=URL,
    multiple=True,
    callback=check_to,
    metavar="URL",
    help="The server: beanstalk[s]://HOST:PORT, HOST:PORT or unix:PATH; of a cluster HOST,HOST. May be repeated.",
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="In place of --to: a map of shards, which says where commands go. When the file changes, it is read again.",
)
@shared_options
@option(
    "--processes",
    type=click.IntRange(1, FRONTS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Take clients in so many processes, each with a link of its own.",
)
@option(
    "--wait", "wait_s", type=Duration(), default=10, show_default=True, help="How long a client waits for a server."
)
@option(
    "--drain",
    "drain_s",
    type=Duration(),
    default=60,
    show_default=True,
    help="How long clients may take to finish when the router stops.",
)
@option(
    "--metrics",
    metavar="ADDR",
    callback=lambda ctx, parameter, value: value and check_listen(ctx, parameter, (value,))[0],
    help="Serve metrics for Prometheus, and /health, on ADDR, HOST:PORT or unix:PATH; of a further process a port on.",
)
def route(to: tuple[str, ...], map_file: Path | None, **given: Any) -> int:
    """Take clients and carry them over one connection, a link, to the server that leads.

    Clients need nothing to know of it. They wait while there is no server. SIGTERM stops it: no new clients, those that
    are there have the time of --drain; a second signal ends it at once. The next router may begin before.
    """
    import beanpole.front.tlswire  # noqa: F401 - the user that this becomes may not read it
    from beanpole.front.router import Settings
    from beanpole.process.child import keep_to_ourselves
    from beanpole.server import listener
    from beanpole.server.logs import open_logger
    from beanpole.server.process import become_user, raise_descriptor_limit, report_ready

    if (map_file is None) == (not to):
        raise click.UsageError("exactly one of --to and --map says where the servers are")
    servers = [*map(Address.of, to)] if map_file is None else nodes_of(map_file)
    login = login_of(click.get_current_context(), given, *servers, url="to" if to else "")
    to = targets_of(servers)
    starter = os.getpid()
    logger = open_logger(given["log_format"])
    listeners = listener.inherited(os.environ)
    keeps_listening = bool(listeners)
    entrance = open_entrance(given)
    if not listeners:
        refuse_itself(paths_of(to) & paths_of(each.partition(",")[0] for each in given["listen"]))
    listeners, addresses = bind(given, entrance, listeners, logger)
    files = {} if keeps_listening else listener.socket_files(listeners)
    ready_file: Path | None = given["ready_file"]
    # What tells the file from others' of that name; whichever process has written it.
    written = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    def ready() -> None:
        written[0], written[1] = report_ready(ready_file, addresses, listeners, logger)

    try:
        refuse_itself(
            [
                each
                for each in to
                if listener.reaches(each.removeprefix(TLS_SCHEME), listeners, shared_limits.PORT_DEFAULT)
            ]
        )
        if given["user"] is not None:
            become_user(given["user"])
        connections_max = min(given["connections_max"], given["processes"] * (raise_descriptor_limit() - RESERVED))
        settings = Settings(
            to,
            given["wait_s"],
            given["drain_s"],
            connections_max,
            given["processes"],
            map=map_file,
            login=login,
            keeps_listening=keeps_listening,
        )
        keep_to_ourselves()
        return run(settings, listeners, logger, given["metrics"], ready, entrance=entrance)
    finally:
        if os.getpid() == starter:  # each process of a crew comes by here
            if ready_file is not None:
                files[str(ready_file)] = (written[0], written[1])
            listener.remove_socket_files(files)


route.params += login_options()
route.epilog = notes_of(route) + EXIT_CODES


def targets_of(servers: "Iterable[Address]") -> tuple[str, ...]:
    """Return the addresses of servers, each node by itself, as a router is told."""
    return tuple(str(node).removeprefix(SCHEME) for server in servers for node in server.each())


def open_entrance(given: "Mapping[str, Any]") -> "Entrance | None":
    """Return where clients come in, with all files read; None: at plain addresses. Raises StartError."""
    from beanpole.server import listener

    if not (given["tls_cert"] or given["tls_key"] or any(map(listener.says_more, given["listen"]))):
        return None
    from beanpole.server.entrance import Entrance
    from beanpole.server.places import parse

    return Entrance(map(parse, given["listen"]), given["tls_cert"], given["tls_key"], has_users=None)


def bind(
    given: "Mapping[str, Any]", entrance: "Entrance | None", handed: list[socket.socket], logger: "Logger"
) -> tuple[list[socket.socket], list[str]]:
    """Return the sockets to listen on, and their addresses; `handed` are those of systemd. Raises StartError."""
    from beanpole.server import listener

    if entrance is not None:
        listeners = entrance.bind(given["port"], handed, shared=True)
        return listeners, entrance.addresses(listeners)
    if handed and given["listen"]:
        logger.warning("listen ignored", reason="systemd handed over the sockets")
    listeners = handed or listener.open_all(given["listen"], given["port"], shared=True)
    return listeners, [listener.address_text(each) for each in listeners]


def paths_of(addresses: "Iterable[str]") -> set[str]:
    """Return the Unix sockets among addresses, by what their paths lead to."""
    return {f"unix:{os.path.realpath(each[5:])}" for each in addresses if each.startswith("unix:")}


def refuse_itself(addresses: "Iterable[str]") -> None:
    for each in addresses:
        raise click.UsageError(f"{each} leads to this router itself")


def run(
    settings: "Settings",
    listeners: list[socket.socket],
    logger: "Logger",
    metrics: str | None,
    ready: "Callable[[], None]",
    *,
    entrance: "Entrance | None",
) -> int:
    """Run a router in as many processes as are asked for; return the exit code."""
    from beanpole.process.child import name_of
    from beanpole.process.crew import Crew

    memory = mmap.mmap(-1, mmap.PAGESIZE)
    numbers = memoryview(memory).cast("q")
    for each in range(settings.processes):
        numbers[each * FRONT_SLOT] = -1  # it has no clients, and takes none

    def work(lifeline: "Lifeline | None" = None) -> int:
        from beanpole.front.router import Router
        from beanpole.front.shardrouter import ShardRouter
        from beanpole.server.loop import ServerLoop
        from beanpole.server.process import ProcessFacts

        async def main() -> None:
            number = lifeline.number - 1 if lifeline else 0
            given = (settings, listeners, logger, memory, number)
            router = Router(*given) if settings.map is None else ShardRouter(ProcessFacts(), *given)
            router.entrance = entrance
            loop = asyncio.get_running_loop()
            if entrance is not None or settings.map is not None:
                loop.add_signal_handler(signal.SIGHUP, router.reread)

            def begin() -> None:
                if number == 0:
                    ready()
                if lifeline:
                    lifeline.begin(functools.partial(stop_soon, loop, router))

            await router.run(begin, services_of(router, metrics, number + 1))

        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            runner.run(main())
        return ExitCode.OK

    def stop_soon(loop: asyncio.AbstractEventLoop, router: "Router") -> None:
        loop.call_soon_threadsafe(router.stop, "the process that started it")

    def note_end(number: int, pid: int, code: int, in_s: float) -> None:
        numbers[(number - 1) * FRONT_SLOT] = -1
        how: dict[str, object] = {"code": code} if code >= 0 else {"signal": name_of(-code)}
        logger.warning("process ended", number=number, pid=pid, **how, in_s=in_s)

    code = work() if settings.processes == 1 else Crew(settings.processes, work, note_end).run()
    logger.info("stopped", exit_code=code)
    return code


def services_of(router: "Router", metrics: str | None, number: int) -> list[Any]:
    """Return what serves the metrics of a router's process, if asked for. Raises StartError: it can't listen."""
    if not metrics:
        return []
    from beanpole.cli.worker import address_of
    from beanpole.server import listener
    from beanpole.worker.metrics import MetricsServer, singles

    where = address_of(metrics, number, METRICS_PORT_DEFAULT)
    sockets = listener.open_all((where,), METRICS_PORT_DEFAULT, shared=True)  # a predecessor that drains has it, too
    for each in sockets:
        each.listen()
    listener.take_paths(sockets)
    return [MetricsServer(sockets, lambda: singles("beanpole_router_", router.metrics()), router.health)]
