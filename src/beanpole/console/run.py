"""The console's life: samplers and the HTTP server begin together, and end at a signal or with their server."""

import asyncio
import select
import signal
import socket
from collections.abc import Callable

from beanpole.console.app import Console, make_app
from beanpole.console.sampler import Logger, Sampler, make_sampler
from beanpole.console.serving import make_server
from beanpole.console.settings import Pairs, Settings


async def run(
    settings: Settings,
    listeners: list[socket.socket],
    logger: Logger,
    now_ns: Callable[[], int],
    ready: Callable[[], None],
) -> None:
    """Serves until SIGTERM or SIGINT, or until the server that has started this console is gone."""
    loop = asyncio.get_running_loop()
    samplers = {each.name: make_sampler(each, settings, logger, now_ns) for each in settings.sources}
    server = make_server(make_app(Console(settings, samplers)), logger)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    tasks = [loop.create_task(each.run()) for each in samplers.values()]
    gone: select.epoll | None = None
    if settings.pairs is not None:
        tasks.append(loop.create_task(stop_when_lost(next(iter(samplers.values())), server.stop)))
        gone = watch(settings.pairs, server.stop)
    for each in listeners:
        each.listen()
    ready()
    try:
        await server.serve(listeners)
    finally:
        if gone is not None:
            loop.remove_reader(gone)
            gone.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(each.stop() for each in samplers.values()))


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
