"""``beanpole top``: a live view of a server. What keys do and what is drawn is in `beanpole.observe`.

One asyncio loop reads keys and asks the server, so that a server that does not answer keeps nobody from quitting. The
terminal is put back whatever ends the view: a key, a signal, an error. Keys that commonly send signals (Ctrl-C, Ctrl-Z)
are read as keys, so that they find the terminal in order too.
"""

import asyncio
import contextlib
import io
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from beanpole.cli.common import Output, Server, verb
from beanpole.cli.errors import sentence_of
from beanpole.cli.inspect import async_client, interval, now_ns
from beanpole.errors import BeanpoleError, ConnectionLostError

if TYPE_CHECKING:
    from rich.live import Live

    from beanpole.client import AsyncClient
    from beanpole.observe.growth import Quantiles
    from beanpole.observe.top import Order
    from beanpole.observe.top_sampler import Row, TopSample, TopSampler

PLAIN_WIDTH = 120  # characters of a line when there is no terminal to ask
READ_BYTES = 1024  # of keys that are read at once


@verb("top", maps=True)
@interval(2, "How often to ask the server.")
@click.option("--once", is_flag=True, help="Print the state once, after one interval, and end.")
def top(server: Server, out: Output, interval_s: float, *, once: bool) -> None:
    """Watch a server: its jobs, its rates, and its tubes in a table that can be sorted and filtered.

    Enter opens a tube, other keys pause it and kick its jobs; ? shows them all. With --json, with --once, or when
    standard input or output is no terminal, the state is printed once.
    """
    if out.as_json or once or not is_terminal():
        asyncio.run(show_once(server, out, interval_s))
    else:
        asyncio.run(watch(server, interval_s))


def is_terminal() -> bool:
    """Whether there are keys to read and a screen to draw on; what it can't show is replaced."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


# --- Once -------------------------------------------------------------------------------------------------------------


async def show_once(server: Server, out: Output, interval_s: float) -> None:
    """Prints a sample, with the rates since another one an interval before."""
    from beanpole.observe.top import Top
    from beanpole.observe.top_sampler import ALL, TopSampler

    async with async_client(server) as client:
        sampler, view = TopSampler(client, now_ns, ALL), Top(height=sys.maxsize)
        view.show(await sampler.take())
        await asyncio.sleep(interval_s)
        sample = await sampler.take(row.stats.name for row in view.most_ready())
    view.show(sample)
    if out.as_json:
        out.record(as_json(sample), "")
        return
    from rich.console import Console

    from beanpole.observe.screen import plain

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
    Console(width=width, highlight=False).print(plain(view, str(server), width))


def as_json(sample: "TopSample") -> dict[str, object]:
    """A sample for programs: what the server said, and the rates; null is what is not known."""
    from dataclasses import asdict

    return {
        "server": dict(sample.server),
        "rates": asdict(sample.rates) if sample.rates else None,
        "waits": times_as_json(sample.waits),
        "runs": times_as_json(sample.runs),
        "tubes": [tube_as_json(row) for row in sample.rows.values()],
    }


def tube_as_json(row: "Row") -> dict[str, object]:
    return {
        **row.stats,
        "put-rate": row.put_rate,
        "delete-rate": row.delete_rate,
        "next-job-age": row.next_job.age if row.next_job else None,
        "waits": times_as_json(row.waits),
        "runs": times_as_json(row.runs),
    }


def times_as_json(times: "Quantiles | None") -> dict[str, float] | None:
    """How long jobs waited, or were held, in seconds."""
    return {"p50": times.half_s, "p99": times.most_s} if times else None


# --- Live -------------------------------------------------------------------------------------------------------------


async def watch(server: Server, interval_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from beanpole.observe.top_sampler import TopSampler

    async with async_client(server) as client:
        live = Live(console=Console(highlight=False), screen=True, auto_refresh=False)
        sampler = TopSampler(client, now_ns)
        await View(server, client, sampler, live, interval_s).run()


@contextmanager
def keys_at_once(fd: int) -> Iterator[None]:
    """Has the terminal hand over each key as it is pressed, unseen; afterwards it is as it was."""
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        mode = termios.tcgetattr(fd)
        mode[tty.LFLAG] &= ~termios.ISIG
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)


class View:
    """The state on the terminal."""

    def __init__(
        self, server: Server, client: "AsyncClient[bytes]", sampler: "TopSampler", live: "Live", interval_s: float
    ) -> None:
        from beanpole.observe.top import Top

        self._top = Top()
        self._client = client
        self._sampler = sampler
        self._live = live
        self._address = str(server)
        self._interval_s = interval_s
        self._stdin = sys.stdin.fileno()
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._left = asyncio.Event()
        """Set when the terminal is to be given back: at the end, and before the process is stopped."""
        self._suspending = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._left.set)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        asking = asyncio.create_task(self._ask_again_and_again())
        asking.add_done_callback(lambda _: self._left.set())
        try:
            await self._hold_terminal()
            while self._suspending and not asking.done():
                self._suspending = False
                os.kill(os.getpid(), signal.SIGSTOP)  # the process stands still here until the shell continues it
                await self._hold_terminal()
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking

    async def _hold_terminal(self) -> None:
        self._left.clear()
        loop = asyncio.get_running_loop()
        with keys_at_once(self._stdin), self._live:
            loop.add_reader(self._stdin, self._read_keys)
            try:
                self._draw()
                await self._left.wait()
            finally:
                loop.remove_reader(self._stdin)

    # --- Keys ---

    def _read_keys(self) -> None:
        from beanpole.observe.top import Simple, keys

        try:
            data = os.read(self._stdin, READ_BYTES)
        except OSError:
            data = b""  # the terminal is gone
        if not data:
            self._left.set()
        for key in keys(data):
            order = self._top.press(key)
            if order in {Simple.QUIT, Simple.SUSPEND}:
                self._suspending = order is Simple.SUSPEND
                self._left.set()
                return
            if order is not None:
                self._orders.put_nowait(order)
        self._draw()

    def _draw(self) -> None:
        from beanpole.observe.screen import rows_in, screen

        width, height = self._live.console.size
        self._top.resize(rows_in(height))
        self._live.update(screen(self._top, self._address, width, height), refresh=self._live.is_started)

    # --- The server ---

    async def _ask_again_and_again(self) -> None:
        while True:
            await self._sample()
            self._draw()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    order = await self._orders.get()
                while not self._orders.empty():  # a fast typist orders many refreshes
                    await self._obey(order)
                    order = self._orders.get_nowait()
                await self._obey(order)

    async def _sample(self) -> None:
        try:
            self._top.show(await self._sampler.take(self._top.wanted(), self._top.pattern, self._top.shown_alone()))
        except ConnectionLostError as error:
            self._top.problem = f"lost the connection, trying again ({sentence_of(error)})"
        except BeanpoleError as error:
            self._top.problem = f"{error}; trying again"

    async def _obey(self, order: "Order") -> None:
        from beanpole.observe.top import Kick, Pause

        try:
            if isinstance(order, Kick):
                async with self._client.pipeline() as pipeline:
                    pipeline.use(order.tube)
                    kicked = pipeline.kick(order.bound)
                    pipeline.use("default")
                self._top.message = f"kicked {kicked.result()} of {order.tube}"
            elif isinstance(order, Pause):
                await self._client.pause_tube(order.tube, order.delay_s)
                done = f"paused for {order.delay_s} s" if order.delay_s else "not paused"
                self._top.message = f"{order.tube} is {done}"
        except BeanpoleError as error:
            self._top.message = f"{order.tube if isinstance(order, Kick | Pause) else 'refresh'}: {error}"
