"""A server for tests: the real decoder and engine in a thread of the test's process, with a clock that the test moves.

Clients connect to a socket on 127.0.0.1 as to any server. Bytes are moved by asyncio in a thread of its own; the queue
itself is a :class:`~beanpole.testing.world.World`, which is used under one lock, by that thread for what clients send
and by the test's for the clock and for looking. No clock is ever read: time passes in :meth:`FakeServer.advance` alone,
and so does that of the wall clock by which schedules fire, which :meth:`FakeServer.set_wall` sets.

Invariants:

- Who changes the world, notifies; what the world wants to say is sent by the thread of the sockets.
- The clock stands still while a client that it has woken is at work; see :meth:`FakeServer.advance`.
"""

import asyncio
import math
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self, cast

from beanpole import limits
from beanpole.address import Address
from beanpole.client import limits as client_limits
from beanpole.client.stats import StatsJob
from beanpole.client.sync import Client
from beanpole.engine.commands import stats
from beanpole.errors import ArgumentError
from beanpole.testing.world import NS_PER_S, START_NS, World

if TYPE_CHECKING:
    from beanpole.worker import Worker

HOST = "127.0.0.1"

END_NS = 2**63 - 1 - 2**32 * NS_PER_S
"""Where the clock ends: the engine counts nanoseconds in 63 bits, and a delay is less than 2**32 seconds."""

WALL_S = 1_767_225_600
"""What the wall clock shows in the beginning, the same for each test: 2026-01-01T00:00:00Z, a Thursday."""

WALL_S_MAX = 4_102_444_800
"""What it can be set to: the year 2100, so that what it shows at the end of the other clock has 63 bits, too."""

WALL_LOOK_NS = 86_400 * NS_PER_S
"""The engine sleeps no longer while it has schedules, for somebody may set the wall clock; here nobody does so."""


@dataclass(frozen=True)
class FakeJob(StatsJob):
    """A job at the moment when it was asked for: what :meth:`beanpole.Client.stats_job` says of it, and its body."""

    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as a string. Raises UnicodeDecodeError if it is none in UTF-8."""
        return self.body.decode()


class Peer(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, server: "FakeServer", name: str) -> None:
        self._server = server
        self.name = name
        """What the world calls it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        with self._server.event() as world:
            world.connect(self.name)
            self.session = world.connections[self.name].session
            self._server.peers[self.name] = self

    def data_received(self, data: bytes) -> None:
        with self._server.event() as world:
            if self.name in self._server.peers and not world.is_closed(self.name):
                world.send(self.name, data)

    def eof_received(self) -> bool:
        """A client will send no more; True: it may still read."""
        with self._server.event() as world:
            if self.name in self._server.peers:
                world.half_close(self.name)
        return True

    def connection_lost(self, _: Exception | None) -> None:
        with self._server.event() as world:
            if self._server.peers.pop(self.name, None) is not None:
                world.disconnect(self.name)


async def _abort(peers: list[Peer]) -> None:
    """Closes connections of which the world knows nothing any more."""
    for peer in peers:
        peer.transport.abort()
    await asyncio.sleep(0)  # the loop closes each in its next turn


class FakeServer:
    """A server on a free port of 127.0.0.1, whose time passes only when :meth:`advance` is called.

    ``with FakeServer() as server:`` starts and stops it, and so do :meth:`start` and :meth:`stop`. Each is empty in the
    beginning: the first job has the id 1. All methods may be called from any thread.

    With `auto_advance` the clock goes on by itself to the next deadline when a client waits in a reserve and nobody
    works: no other client holds a job. That is for code that reserves with a timeout in the thread of the test. It is
    wrong where another thread or task is about to say something, for the server can't know of it.

    `patience` is how many seconds (of the real clock) :meth:`advance` waits for a client that it has woken.
    `body_bytes_max` is the largest body, as ``beanpole serve -z`` sets it, and `tubes_max` how many tubes there may be,
    as ``--tubes-max`` does. An `old` one has beanstalkd's commands and no other, and clients have to do without ours.
    """

    def __init__(
        self,
        *,
        auto_advance: bool = False,
        patience: float = 1.0,
        body_bytes_max: int = limits.BODY_BYTES_MAX_DEFAULT,
        tubes_max: int = limits.TUBES_MAX,
        old: bool = False,
    ) -> None:
        self._auto_advance = auto_advance
        self._patience_s = patience
        self._world = World(body_bytes_max, tubes_max, extensions=not old)
        self._world.engine.wall_lead_ns = WALL_S * NS_PER_S - START_NS
        self._world.engine.wall_look_ns = WALL_LOOK_NS
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0
        self.peers: dict[str, Peer] = {}

    # --- The server ---

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listens, in a thread of its own. Raises RuntimeError if it does so already, OSError if there is no port."""
        if self._loop is not None:
            raise RuntimeError("the server is running")
        self._socket = socket.create_server((HOST, 0))
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="FakeServer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Closes all connections and stops listening; what is in the queue stays to be looked at."""
        with self._changed:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def drop_connections(self, away: float = 0) -> None:
        """Loses all connections, as a server does that is started again, or a node of a cluster that fails over.

        Clients connect again, when `away` seconds have passed. Jobs that a client held are ready, or wait for it if it
        keeps them: a worker's do for 10 seconds. Nothing else is lost.
        """
        with self._changed:
            loop = self._loop
            with self.event() as world:
                peers, self.peers = list(self.peers.values()), {}
                for peer in peers:
                    world.connections[peer.name].transport.cut = True
                    world.disconnect(peer.name)
            self.advance(away)
        if loop is not None:
            asyncio.run_coroutine_threadsafe(_abort(peers), loop).result()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, for clients that take them so. Raises RuntimeError if the server is not running."""
        if self._loop is None:
            raise RuntimeError("the server is not running: use it within `with`, or call start()")
        host, port = self._socket.getsockname()
        return host, port

    @property
    def url(self) -> str:
        """The same as ``beanstalk://host:port``."""
        return "beanstalk://{}:{}".format(*self.address)

    # --- The clock ---

    @property
    def now(self) -> float:
        """Seconds on the server's clock, which begins at 0."""
        return (self._world.now_ns - START_NS) / NS_PER_S

    @property
    def wall(self) -> datetime:
        """What the server's wall clock shows, in UTC: 2026-01-01 in the beginning, and so much later as time passes."""
        with self._changed:
            wall_ns = self._world.now_ns + self._world.engine.wall_lead_ns
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=wall_ns // 1_000)

    def set_wall(self, wall: datetime | float) -> None:
        """Sets the wall clock, to a time with its zone or to Unix seconds; no delay or timeout ends by that.

        Schedules see it at once. Set forward, times that are more than their `late` behind are missed: so let time pass
        by :meth:`advance` for each to fire. Set back by up to three hours, they wait; by more, they do so for ten
        minutes, as on any server. Raises ArgumentError for a time without a zone, and for one that is not between
        1970 and 2100.
        """
        if isinstance(wall, datetime) and wall.utcoffset() is None:
            raise ArgumentError(f"the wall clock is set to a time with its zone, not to {wall!r}")
        wall_s = wall.timestamp() if isinstance(wall, datetime) else wall
        if not 0 <= wall_s <= WALL_S_MAX:
            raise ArgumentError(f"the wall clock is set to a time from 1970 to 2100, not to {wall!r}")
        with self.event() as world:
            world.engine.wall_lead_ns = round(wall_s * 1_000_000) * 1_000 - world.now_ns
            if world.engine.schedules_at_ns >= 0:
                world.engine.schedules_at_ns = world.now_ns
            world.advance(0)

    @property
    def auto_advance(self) -> bool:
        """Whether the clock goes on by itself; may be set at any time."""
        return self._auto_advance

    @auto_advance.setter
    def auto_advance(self, wanted: bool) -> None:
        with self.event():
            self._auto_advance = wanted

    def advance(self, seconds: float) -> None:
        """Lets time pass: delays, TTRs, pauses and the timeouts of reserves end, schedules fire, each at its moment.

        Where that gives something to waiting clients, time does not go on before each of them is done: it waits again,
        or has closed its connection. So a worker in another thread retries as often as it would in that time. A client
        that does not come back is left alone after `patience` seconds.

        When the last moment has come the method returns, and does not wait for clients: :meth:`join` does.
        Raises ArgumentError for what is no number of seconds, or beyond the longest time that the server can count.
        """
        if not (math.isfinite(seconds) and 0 <= seconds <= (END_NS - self._world.now_ns) / NS_PER_S):
            raise ArgumentError(f"seconds to advance by are 0 or more, and not for ever: {seconds!r}")
        end_ns = self._world.now_ns + round(seconds * NS_PER_S)
        while True:
            with self.event():
                woken = self._step(end_ns)
                if self._world.now_ns >= end_ns and not self._is_due(end_ns):
                    return
            self._wait_for(woken)

    def join(self, *tubes: str, timeout: float = 5.0) -> None:
        """Waits until workers in other threads are done: no job of these tubes (none: of any) is ready or reserved.

        Then it gives each client that has ever reserved `patience` seconds to wait for the next job or to close its
        connection, so that an :meth:`advance` after this finds it waiting. Time does not move while it waits.

        Raises TimeoutError if jobs are left after `timeout` seconds of the real clock.
        """

        def left() -> list[FakeJob]:
            return [
                job for job in self.jobs() if job.state in {"ready", "reserved"} and job.tube in (tubes or {job.tube})
            ]

        with self._changed:
            if not self._changed.wait_for(lambda: not left(), timeout):
                raise TimeoutError(f"after {timeout} s nobody has finished {left()}")
            self._wait_for([peer for peer in self.peers.values() if peer.session.worker])

    @contextmanager
    def running(self, worker: "Worker", *, grace: float = 1.0, processes: bool = True) -> Iterator[None]:
        """Runs a worker in a thread, against this server and not its own, as long as the with block lasts.

        At the end of the block, handlers that still run have `grace` seconds, whatever the worker's own is; then their
        jobs are released. These seconds and the timeouts of handlers are of the real clock. The worker waits for jobs
        without an end, so that :meth:`advance` need not stop each half minute. The block begins when the server has the
        worker's schedules, if it has any, or after `patience` seconds.

        Without `processes`, handlers that have ``process=True`` run in threads, so that what the test patches is
        patched for them; a `timeout` can't stop them then.

        Raises in the end what :meth:`beanpole.Worker.serve` raises.
        """
        own = worker.address, worker.grace_s, worker.reserve_s, worker.processes
        worker.address, worker.grace_s, worker.reserve_s = Address(*self.address), grace, None
        worker.processes = worker.processes and processes
        with ThreadPoolExecutor(1, "beanpole worker") as thread:
            served = thread.submit(lambda: asyncio.run(worker.serve()))
            served.add_done_callback(lambda _: self._notify())
            try:
                with self._changed:
                    self._changed.wait_for(lambda: served.done() or self._is_set(worker.schedules), self._patience_s)
                yield
            finally:
                worker.stop()
                try:
                    served.result()
                finally:
                    worker.address, worker.grace_s, worker.reserve_s, worker.processes = own

    # --- The queue ---

    def put(
        self,
        body: str | bytes,
        priority: int = client_limits.PRI_DEFAULT,
        delay: int = 0,
        ttr: int = client_limits.TTR_S_DEFAULT,
        *,
        tube: str = "default",
    ) -> int:
        """Puts a job as :meth:`beanpole.Client.put` does, over a connection of its own, and returns its id (``put``).

        `delay` and `ttr` are in seconds. Raises TypeError for a body that is no string and no bytes, and what the
        client raises.
        """
        given: object = body
        if not isinstance(given, str | bytes):
            kind = type(given).__name__
            raise TypeError(f"a body is str or bytes, not {kind}: encode it as your program does, as json.dumps(body)")
        with Client(self.address) as client:
            return client.put(cast("str", body), priority, delay, ttr, tube=tube)

    def jobs(self, tube: str | None = None, state: str | None = None) -> list[FakeJob]:
        """The jobs of a tube (None: of any) in a state (None: in any), by their ids.

        It changes nothing, and no command of the protocol shows that it was called.
        """
        with self._changed:
            found = [
                replace(FakeJob.parse(stats.yaml(stats.job_pairs(job, self._world.now_ns))), body=job.text)
                for job in self._world.engine.jobs.jobs()
            ]
        found = [job for job in found if tube in {None, job.tube} and state in {None, job.state}]
        return sorted(found, key=lambda job: job.id)

    def tubes(self) -> list[str]:
        """The names of all tubes (``list-tubes``), over a connection of its own."""
        with Client(self.address) as client:
            return client.tubes()

    # --- Inside ---

    @contextmanager
    def event(self) -> Iterator[World]:
        """Wakes everything that waits for a change of the world, and sends the replies."""
        with self._changed:
            yield self._world
            self._world.end_leaving()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._speak)
            self._changed.notify_all()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._serve(loop))
        finally:
            loop.close()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        server = await loop.create_server(self._accept, sock=self._socket)
        await self._stopping.wait()
        while accepting := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(accepting)  # asyncio forgets to close who is being accepted when the server closes
        server.close()
        for peer in self.peers.values():
            peer.transport.abort()
        await asyncio.sleep(0)  # the loop reports the end of each in its next turn

    def _accept(self) -> Peer:
        self._count += 1
        return Peer(self, str(self._count))

    def _speak(self) -> None:
        """Sends replies; then, with `auto_advance` and if no client has sent anything, moves the clock."""
        with self._changed:
            for name, peer in self.peers.items():
                output = self._world.output(name)
                if output:
                    peer.transport.write(output)
                if self._world.is_closed(name):
                    peer.transport.close()
            self._world.resumed.clear()
            if self._auto_advance and self._all_wait():
                with self.event():
                    self._step(END_NS)

    def _step(self, end_ns: int) -> list[Peer]:
        """Moves the clock to the next deadline, at most to `end_ns`; returns the clients that got a reply."""
        self._world.resumed.clear()
        self._world.step(max(end_ns, self._world.now_ns))  # with `auto_advance` it may be further already
        return [self.peers[name] for name in self._world.resumed]

    def _wait_for(self, clients: list[Peer]) -> None:
        """Gives clients that got something time to come back: each waits for a job again, or is gone."""

        def are_back() -> bool:
            return all(client.session.waiting or client.name not in self.peers for client in clients)

        with self._changed:
            self._changed.wait_for(are_back, self._patience_s)

    def _is_set(self, schedules: list[str]) -> bool:
        """Whether schedules are there, if there are to be any, and somebody takes jobs."""
        table = self._world.engine.schedules
        return not schedules or (
            table is not None
            and {name.encode() for name in schedules} <= set(table.names)
            and any(peer.session.waiting or peer.session.reserved_count for peer in self.peers.values())
        )

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _is_due(self, end_ns: int) -> bool:
        return 0 <= self._world.engine.next_deadline_ns <= end_ns

    def _all_wait(self) -> bool:
        """Whether some client waits, time would change something, and nobody works: who does not wait holds no job."""
        sessions = [peer.session for peer in self.peers.values()]
        return (
            any(session.waiting for session in sessions)
            and all(session.waiting or not session.reserved_count for session in sessions)
            and self._is_due(END_NS)
        )
