"""The console's life: samplers and the HTTP server begin together, and end at a signal or with their server."""

import asyncio
import select
import signal
import socket
from collections.abc import Callable

from beanpole.console.actions.runs import Runs
from beanpole.console.app import make_app
from beanpole.console.sampler import Logger, Sampler, make_sampler
from beanpole.console.security.users import Users
from beanpole.console.servers import Console, Server
from beanpole.console.serving import make_server
from beanpole.console.settings import Clock, Pairs, Settings


async def run(
    settings: Settings,
    listeners: list[socket.socket],
    logger: Logger,
    clock: Clock,
    ready: Callable[[], None],
) -> None:
    """Serves until SIGTERM or SIGINT, or until the server that has started this console is gone."""
    loop = asyncio.get_running_loop()
    servers = {
        each.name: Server(each, settings, make_sampler(each, settings, logger, clock)) for each in settings.sources
    }
    console = Console(settings, servers, logger, clock)
    users = None if settings.users is None else Users(settings.users, settings.key, logger, clock)
    http = make_server(make_app(console, users), logger)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, http.stop)
    tasks = [loop.create_task(each.sampler.run()) for each in servers.values()]
    if users is not None:
        tasks.append(loop.create_task(users.keep_reading()))
    gone: select.epoll | None = None
    if settings.pairs is not None:
        tasks.append(loop.create_task(stop_when_lost(next(iter(servers.values())).sampler, http.stop)))
        gone = watch(settings.pairs, http.stop)
    for each in listeners:
        each.listen()
    ready()
    try:
        await http.serve(listeners)
    finally:
        await console.kept(Runs).stop()
        if gone is not None:
            loop.remove_reader(gone)
            gone.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(each.stop() for each in servers.values()))


async def stop_when_lost(sampler: Sampler, stop: Callable[[], None]) -> None:
    """Stops when the pair for samples was given up, as when an answer on it made no sense."""
    await sampler.lost.wait()
    stop()


def watch(pairs: Pairs, stop: Callable[[], None]) -> select.epoll:
    """Stops when a pair is at its end, whoever reads from it. What is returned must be kept, and closed."""
    loop, gone = asyncio.get_running_loop(), select.epoll()
    for each in (pairs.sampling, *pairs.others):
        gone.register(each, select.EPOLLRDHUP)

    def ended() -> None:
        loop.remove_reader(gone)
        stop()

    loop.add_reader(gone, ended)
    return gone
