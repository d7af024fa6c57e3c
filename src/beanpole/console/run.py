"""The console's life: samplers and the HTTP server begin together, and end at a signal or with their server."""

import asyncio
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
    server = make_server(make_app(Console(settings, samplers)))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    tasks = [loop.create_task(each.run()) for each in samplers.values()]
    if settings.pairs is not None:
        tasks.append(loop.create_task(stop_when_lost(samplers[settings.sources[0].name], server.stop)))
        watch(settings.pairs, server.stop)
    for each in listeners:
        each.listen()
    ready()
    try:
        await server.serve(listeners)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(each.stop() for each in samplers.values()))


async def stop_when_lost(sampler: Sampler, stop: Callable[[], None]) -> None:
    """Stops when the pair for samples is at its end."""
    await sampler.lost.wait()
    stop()


def watch(pairs: Pairs, stop: Callable[[], None]) -> None:
    """Stops when one of the other pairs is at its end: nothing else comes from them before something is asked."""
    loop = asyncio.get_running_loop()

    def ended(pair: socket.socket) -> None:
        loop.remove_reader(pair)
        stop()

    for each in pairs.others:
        loop.add_reader(each, ended, each)
