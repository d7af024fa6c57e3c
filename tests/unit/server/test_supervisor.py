"""The console's process: what it is handed, how it ends, when it is started again, and when no more."""

import asyncio
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.process.child import ended_by, keep_to_ourselves, pause_after
from beanpole.process.keeper import Pace
from beanpole.server.connection import Connection
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.logs import Event, Logger
from beanpole.server.observer import SlowTurn
from beanpole.server.supervisor import Supervisor
from beanpole.server.turn import Turn
from tests.servers import REPLY_TIMEOUT_S

FAKE = Path(__file__).with_name("fake_console.py")
POLL_S = 0.005
FAST = Pace(pause_s=0.01, pause_max_s=0.02, ends_max=1000, stop_s=REPLY_TIMEOUT_S)


class Observer:
    """Fails if it is called, but for a busy machine: what happens here is not about clients."""

    def turn_slow(self, slow: SlowTurn) -> None:
        """Ignore it."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(name)


class House:
    """A supervisor, and an engine that serves its console on the running loop."""

    def __init__(self, behaviour: str, pace: Pace) -> None:
        self.lines: list[Event] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.engine, self.transport = self.serving()
        command = [sys.executable, "-I", "-S", str(FAKE), behaviour]
        self.supervisor = Supervisor(self.listener, command, Logger(self.note), pace)

    def serving(self) -> tuple[Engine, EpollTransport]:
        """An engine, and what serves it."""
        log = Log()
        engine = Engine(now_ns=now_ns(), records=log.records)
        loop = asyncio.get_running_loop()
        transport = EpollTransport(Turn(engine, log), loop, Observer())  # type: ignore[arg-type]
        transport.observe_connections = True
        loop.add_reader(transport.fileno(), transport.run)
        return engine, transport

    def note(self, event: Event) -> str:
        """Keep a log line."""
        self.lines.append(dict(event))
        return ""

    def events(self, name: str) -> list[Event]:
        return [each for each in self.lines if each["event"] == name]

    async def see(self) -> dict[str, object]:
        """What the console that runs says of itself."""
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            while True:
                reader, writer = await asyncio.open_connection(*self.address)
                line = await reader.readline()
                writer.close()
                await writer.wait_closed()  # its descriptor is free only then
                if line:  # empty: it was killed before it answered
                    found: dict[str, object] = json.loads(line)
                    return found

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            while not condition():  # noqa: ASYNC110 - nobody says when
                await asyncio.sleep(POLL_S)


@asynccontextmanager
async def house(behaviour: str = "serve", pace: Pace = FAST) -> AsyncIterator[House]:
    """A supervisor that is started, and that must be able to stop."""
    found = House(behaviour, pace)
    found.supervisor.serve_by(found.transport)
    found.supervisor.start()
    try:
        yield found
    finally:
        found.supervisor.close()
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            await found.supervisor.stopped()
        found.listener.close()


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on the loop that the server runs on; what a callback raises fails it."""
    failed: list[object] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context))
        await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    assert not failed


def is_alive(pid: int) -> bool:
    """Whether a process runs, or is a zombie that nobody has waited for."""
    return Path(f"/proc/{pid}").exists()


def descriptors() -> int:
    """How many files this process has open, without those of objects that nobody can reach."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_console_is_handed_the_listener_and_four_connections_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("BEANPOLE_CLUSTER", "LISTEN_FDS", "NOTIFY_SOCKET", "PGPASSWORD"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("KEPT", "ä")
    left_open = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(left_open, True)
    keep_to_ourselves()

    async def test() -> None:
        async with house() as found:
            seen = await found.see()
            assert seen["descriptors"] == list(range(8))
            assert seen["replies"] == ["USING default\r\n"] * 4
            assert seen["input"] == ""
            assert seen["group"] == seen["pid"] != os.getpgid(0)
            variables = seen["variables"]
            assert isinstance(variables, list)
            assert "KEPT" in variables
            assert not [each for each in variables if each.startswith(("BEANPOLE", "LISTEN", "NOTIFY", "PG"))]
            assert (found.engine.session_count, found.engine.total_session_count) == (0, 0)
            await found.until(lambda: found.events("console started"))
            found.supervisor.start()
            assert len(found.events("console started")) == 1

    in_loop(test)
    os.close(left_open)


def test_console_that_is_killed_is_started_again_and_leaves_nothing() -> None:
    async def test() -> None:
        async with house() as found:
            pids = [(await found.see())["pid"]]
            await found.until(lambda: found.events("console started"))
            before = descriptors()
            for _ in range(20):
                pid = pids[-1]
                assert isinstance(pid, int)
                os.kill(pid, signal.SIGKILL)
                pids.append((await found.see())["pid"])
                assert not is_alive(pid)
            assert len(set(pids)) == 21
            await found.until(lambda: len(found.events("console started")) == 21)
            await found.until(lambda: descriptors() == before)
            ends = found.events("console ended")
            assert [each["reason"] for each in ends] == ["SIGKILL"] * 20
            assert found.engine.session_count == 0

    in_loop(test)


@pytest.mark.parametrize(
    ("end", "said"), [("exit(3)", "exit code 3"), (f"kill({signal.SIGRTMIN + 3})", f"signal {signal.SIGRTMIN + 3}")]
)
def test_every_end_has_a_word(end: str, said: str) -> None:
    code = f"import os, signal\nkill = lambda number: os.kill(os.getpid(), number)\n{end}"
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    assert ended_by(pid) == said


def test_console_that_does_not_stay_is_given_up() -> None:
    async def test() -> None:
        async with house("fail", Pace(pause_s=0.001, ends_max=5)) as found:
            await found.until(lambda: found.events("console given up"))
            assert found.supervisor.running is not None
            await found.supervisor.running
            assert [each["reason"] for each in found.events("console ended")] == ["exit code 3"] * 4
            assert len(found.events("console given up")) == 1
            assert found.lines[-1]["effect"] == "ended 5 times within 60 s"
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*found.address)
            found.supervisor.serve_by(found.serving()[1])
            found.supervisor.start()
            assert len(found.events("console started")) == 5

    in_loop(test)


def test_ends_of_long_ago_do_not_count() -> None:
    async def test() -> None:
        async with house("fail", Pace(pause_s=0.001, pause_max_s=0.001, ends_max=3, ends_s=0.0)) as found:
            await found.until(lambda: len(found.events("console ended")) > 5)
            assert {each["effect"] for each in found.events("console ended")} == {"started again in 0.001 s"}

    in_loop(test)


def test_pauses_double_up_to_a_limit() -> None:
    pace = Pace()
    pauses = [pause_after(ends, pace.pause_s, pace.pause_max_s) for ends in range(1, 8)]
    assert pauses == [0.5, 1, 2, 4, 8, 10, 10]
    assert (pace.ends_max, pace.ends_s) == (5, 60)


def test_program_that_can_not_be_started_is_given_up() -> None:
    async def test() -> None:
        async with house(pace=Pace(pause_s=0.001, ends_max=2)) as found:
            before = descriptors()
            found.supervisor.command = ["/no/such/program"]
            await found.until(lambda: found.events("console given up"))
            assert "No such file" in str(found.lines[-1]["reason"])
            assert "/no/such/program" in str(found.lines[-1]["reason"])
            assert found.lines[-1]["level"] == "error"
            assert not found.events("console started")
            assert found.supervisor.running is not None
            await found.supervisor.running
            await found.until(lambda: descriptors() == before - 1)  # the listener

    in_loop(test)


def test_fault_in_the_supervisor_is_logged_and_hurts_nobody() -> None:
    class Broken:
        def adopt(self, fd: int) -> Connection:
            os.close(fd)
            raise RuntimeError("broken")

        def release(self, connection: Connection) -> None:
            """Do nothing."""

    async def test() -> None:
        async with house() as found:
            found.supervisor.serve_by(Broken())
            await found.until(lambda: found.events("console given up"))
            assert "RuntimeError: broken" in str(found.lines[-1]["exception"])

    in_loop(test)


def test_console_that_hangs_is_killed() -> None:
    async def test() -> None:
        async with house("hang", Pace(stop_s=0.05)) as found:
            await found.until(lambda: found.engine.jobs.count)
            pid = found.events("console started")[0]["pid"]
            assert isinstance(pid, int)
            began_s = time.monotonic()
            found.supervisor.close()
            await found.supervisor.stopped()
            assert time.monotonic() - began_s >= 0.05
            assert not is_alive(pid)
            assert not found.events("console ended")

    in_loop(test)


def test_stop_while_it_starts_or_pauses() -> None:
    async def test() -> None:
        async with house() as found:
            pass
        async with house() as found:
            await asyncio.sleep(0)
            found.supervisor.close()
            found.supervisor.start()
            await found.supervisor.stopped()
        async with house("fail", Pace(pause_s=1000.0, pause_max_s=1000.0)) as found:
            await found.until(lambda: found.events("console ended"))

    in_loop(test)


def test_other_engine_gets_a_console_of_its_own_and_that_is_no_end() -> None:
    async def test() -> None:
        async with house(pace=Pace(ends_max=1)) as found:
            for _ in range(6):
                seen = await found.see()
                pid = seen["pid"]
                assert isinstance(pid, int)
                _, transport = found.serving()
                found.supervisor.serve_by(transport)
                found.supervisor.serve_by(transport)
                while (await found.see())["pid"] == pid:
                    pass
                assert not is_alive(pid)
            assert not found.events("console ended")
            await found.until(lambda: len(found.events("console started")) == 7)

    in_loop(test)


def test_console_that_reads_nothing_takes_little_memory_and_no_client_s_time() -> None:
    async def test() -> None:
        async with house("flood", Pace(stop_s=REPLY_TIMEOUT_S)) as found:
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setblocking(False)
            found.transport.observe_connections = False
            found.transport.listen(listener.fileno(), is_unix=False)
            await found.until(lambda: found.events("console started"))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                for _ in range(1000):
                    writer.write(b"put 0 0 60 1\r\nx\r\nreserve\r\n")
                    _, number = (await reader.readline()).split()
                    await reader.readline()
                    await reader.readline()
                    writer.write(b"delete %b\r\n" % number)
                    assert await reader.readline() == b"DELETED\r\n"
            writer.close()
            listener.close()
            unsent = [len(each.take_output()) for each in found.supervisor.connections]
            assert len(unsent) == 4
            assert max(unsent) < 1_200_000

    in_loop(test)
