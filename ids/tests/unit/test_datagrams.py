"""The socket: whatever arrives and whatever the system says, the next datagram is served."""

import asyncio
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import pytest

from beanpole_ids import limits
from beanpole_ids.datagrams import Datagrams
from beanpole_ids.errors import ClockAheadError
from beanpole_ids.origin import source_of, to_text
from beanpole_ids.service import DROPPED, Service
from tests.unit.test_service import MIDNIGHT_S, HeldStore, configure

if TYPE_CHECKING:
    from collections.abc import Callable

    from beanpole_ids.request import Answer

    Address = tuple[Any, ...]


PATIENT_MS = 120_000
"""For what waits while a busy machine does something else."""


class Echo:
    """Answers a datagram with itself; `x` is an error, `n` nothing, and `l...` is answered when the test says so."""

    def __init__(self) -> None:
        self.dropped = dict.fromkeys(DROPPED, 0)
        self.served: list[tuple[bytes, str]] = []
        """Datagrams, in the order in which they were served, and their sources."""

        self.later: list[tuple[Answer, bytes]] = []
        self.came = asyncio.Event()
        self.cookies = self
        self.fast = None

    def record_failure(self, error: Exception) -> None:
        assert str(error) == "no request"

    def is_trusted(self, source: str) -> bool:
        return source != "127.0.0.2"

    def receive(self, data: bytes, answer: "Answer", source: str, *, is_trusted: bool) -> None:
        assert is_trusted == self.is_trusted(source)
        self.came.set()
        self.served.append((data, source))
        if data == b"x":
            raise ValueError("no request")
        if data.startswith(b"l"):
            self.later.append((answer, data))
        elif data != b"n":
            answer(data)


async def until(holds: "Callable[[], bool]") -> None:
    """Lets the loop run until something holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - it is a count
            await asyncio.sleep(0)


async def receive(client: socket.socket, count: int) -> list[bytes]:
    loop = asyncio.get_running_loop()
    return [await asyncio.wait_for(loop.sock_recv(client, 70_000), 60) for _ in range(count)]


def connected(address: "Address") -> socket.socket:
    client = socket.socket(socket.AF_INET6 if len(address) == 4 else socket.AF_INET, socket.SOCK_DGRAM)
    client.setblocking(False)
    client.connect(address)
    return client


class World:
    """A socket that serves an echo, and a client."""

    def __init__(self, host: str = "127.0.0.1", **more: int) -> None:
        self.echo = Echo()
        self.datagrams = Datagrams(cast("Service", self.echo), **{"late_ms": PATIENT_MS} | more)
        self.address = self.datagrams.open(host, 0)
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - what a test binds
        self.client = connected((reachable, *self.address[1:]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.datagrams.close()
        self.client.close()


class Pipe:
    """A socket of a file, whose receiver is full after some datagrams: the kernel then takes no more for it."""

    def __init__(self, folder: Path) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        server.bind(str(folder / "server"))
        self.client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.client.bind(str(folder / "client"))
        self.client.connect(str(folder / "server"))
        self.client.setblocking(False)
        self.echo = Echo()
        self.datagrams = Datagrams(cast("Service", self.echo), late_ms=PATIENT_MS)
        self.datagrams.attach(server)

    async def let_wait(self) -> "Answer":
        """Sends a datagram that the test answers, as often as it likes."""
        self.client.send(b"later")
        async with asyncio.timeout(60):
            await self.echo.came.wait()
        [(answer, _)] = self.echo.later
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_more_than_a_turn_holds(host: str) -> None:
    async def story() -> None:
        with World(host) as world:
            sent = [str(each).encode() for each in range(2 * limits.RECEIVE_COUNT + 1)]
            for each in sent:
                world.client.send(each)
            assert await receive(world.client, len(sent)) == sent
            assert world.echo.served == [(each, host) for each in sent]

    asyncio.run(story())


def test_a_turn_ends_and_other_work_is_done() -> None:
    async def story() -> None:
        with World(turn_us=0) as world:
            count = 2 * limits.RECEIVE_COUNT + 1
            for each in range(count):
                world.client.send(str(each).encode())
            turns = 0
            while len(world.echo.served) < count:
                before = len(world.echo.served)
                await asyncio.sleep(0)
                turns += 1
                assert len(world.echo.served) <= before + 2, "one a turn, and what had come before the first"
            assert turns >= count // 2

    asyncio.run(story())


def test_who_sends_little_does_not_wait_for_who_sends_much() -> None:
    async def story() -> None:
        with World(turn_us=0) as world:
            for each in range(5 * limits.RECEIVE_COUNT):
                world.client.send(b"%d" % each)
            quiet = connected(world.address)
            quiet.send(b"quiet")
            assert await receive(quiet, 1) == [b"quiet"]
            assert [data for data, _ in world.echo.served].index(b"quiet") <= 8, "one a turn"
            quiet.close()

    asyncio.run(story())


@pytest.mark.parametrize("count", [1, 2 * limits.RECEIVE_COUNT])  # served as they come, and after they have waited
def test_what_has_waited_too_long_is_dropped(count: int) -> None:
    async def story() -> None:
        with World(late_ms=0) as world:
            for _ in range(count):
                world.client.send(b"old")
            await until(lambda: sum(world.echo.dropped.values()) == count)
            assert world.echo.dropped["late"] == count
            assert not world.echo.served

    asyncio.run(story())


def test_who_has_too_much_waiting_loses_its_own() -> None:
    async def story() -> None:
        with World(turn_us=0) as world:
            long = b"n" + bytes(8_000)
            count = limits.QUEUE_SOURCE_BYTES // len(long)
            quiet = connected(world.address)
            for each in range(2 * count):
                world.client.send(long)
                if not each % 32:
                    await asyncio.sleep(0)  # the kernel has no room for all
            quiet.send(b"quiet")
            assert await receive(quiet, 1) == [b"quiet"]
            assert world.echo.dropped["crowded"] > count / 2
            quiet.close()

    asyncio.run(story())


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])  # noqa: S104 - what a test binds
def test_what_comes_from_its_own_address_is_dropped(host: str) -> None:
    async def story() -> None:
        with World(host) as world, socket.socket(fileno=socket.dup(world.datagrams.fileno())) as own:
            own.sendto(b"1", world.client.getpeername())
            world.client.send(b"2")
            assert await receive(world.client, 1) == [b"2"]
            assert [data for data, _ in world.echo.served] == [b"2"]
            assert world.echo.dropped["own address"] == 1

    asyncio.run(story())


def test_an_address_of_ipv4_is_written_as_such() -> None:
    async def story() -> None:
        with World("::") as world, connected(("127.0.0.1", world.address[1])) as client:
            client.send(b"hello")
            assert await receive(client, 1) == [b"hello"]
            assert world.echo.served == [(b"hello", "127.0.0.1")]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("written", "source", "text"),
    [
        ("192.0.2.1", "c0000201", "192.0.2.1"),
        ("::ffff:192.0.2.1", "00000000000000000000ffffc0000201", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "20010db800010002", "2001:db8:1:2:3::4"),
    ],
)
def test_whose_address_it_is(written: str, source: str, text: str) -> None:
    key = socket.inet_pton(socket.AF_INET6 if ":" in written else socket.AF_INET, written)
    assert source_of(key).hex() == source
    assert to_text(key) == text


def test_who_is_trusted_is_asked_by_address() -> None:
    async def story() -> None:
        with World("0.0.0.0") as world:  # noqa: S104 - see above
            for source in ("127.0.0.2", "127.0.0.3"):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                    client.bind((source, 0))
                    client.connect(("127.0.0.1", world.address[1]))
                    client.setblocking(False)
                    client.send(b"hello")
                    assert await receive(client, 1) == [b"hello"]
            assert [source for _, source in world.echo.served] == ["127.0.0.2", "127.0.0.3"]

    asyncio.run(story())


def test_errors_and_receivers_that_are_gone_are_counted() -> None:
    async def story() -> None:
        with World() as world:
            gone = connected(world.address)
            gone.send(b"hello")
            gone.close()
            for each in (b"", b"x", b"x", b"n", b"later", b"end"):
                world.client.send(each)
            assert await receive(world.client, 2) == [b"", b"end"]
            assert world.datagrams.failed_count == 2
            (answer, _), *_ = world.echo.later
            answer(b"x" * (limits.REPLY_BYTES_MAX + 1))
            assert world.datagrams.failed_count == 3
            answer(b"now")
            assert await receive(world.client, 1) == [b"now"]
        answer(b"closed")
        assert world.datagrams.failed_count == 4

    asyncio.run(story())


def test_replies_that_the_system_does_not_take_are_sent_later(tmp_path: Path) -> None:
    async def story() -> None:
        with Pipe(tmp_path) as pipe:
            answer, sent = await pipe.let_wait(), list[bytes]()
            while len(pipe.datagrams.outbox.kept) < 2:
                sent.append(b"%d" % len(sent))
                answer(sent[-1])
                assert len(sent) < 100_000, "its receiver is full at some time"
            assert await receive(pipe.client, len(sent)) == sent
            assert pipe.datagrams.failed_count == 0
            assert not pipe.datagrams.outbox.kept_bytes
            pipe.datagrams.close()

    asyncio.run(story())


def test_replies_that_wait_are_bounded_and_lost_at_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        with Pipe(tmp_path) as pipe:
            answer = await pipe.let_wait()
            reply = b"x" * limits.REPLY_BYTES_MAX
            for _ in range(10 * limits.SOCKET_BYTES // len(reply)):
                answer(reply)
            await asyncio.sleep(0)
            kept, failed = len(pipe.datagrams.outbox.kept), pipe.datagrams.failed_count
            assert kept == limits.SOCKET_BYTES // len(reply)
            assert pipe.datagrams.outbox.kept_bytes == kept * len(reply)
            assert failed > kept, "what was sent had half of this place, and the rest is lost"
            pipe.datagrams.close()
            assert pipe.datagrams.failed_count == failed + kept

    asyncio.run(story())


def test_clock_that_has_jumped_is_refused_as_by_the_service(tmp_path: Path) -> None:
    """Also a request that would be served without it."""

    async def story() -> None:
        errors: list[Exception] = []

        def now_s() -> float:
            if errors:
                raise errors[0]
            return MIDNIGHT_S

        service = Service(configure(tmp_path), HeldStore(), now_s, lambda: 0.0)
        keeper = asyncio.create_task(service.counters.run())
        datagrams = Datagrams(service, late_ms=PATIENT_MS)
        with connected(datagrams.open("127.0.0.1", 0)) as client:
            codes = []
            for error in (None, None, ClockAheadError(9_999), None):
                errors[:] = [error] if error else []
                client.send(b'{"action":"get","app_name":"a","rule_name":"day"}')
                codes.append(json.loads((await receive(client, 1))[0])["code"])
        assert codes == [0, 0, -4, 0]
        datagrams.close()
        service.counters.begin_stop()
        await keeper

    asyncio.run(story())


def test_two_nodes_do_not_answer_each_other(tmp_path: Path) -> None:
    """A request whose source is another node's address makes one reply, and no more."""

    async def story() -> None:
        config = configure(tmp_path)
        services = [Service(config, HeldStore(), lambda: MIDNIGHT_S, lambda: 0.0) for _ in range(2)]
        keepers = [asyncio.create_task(each.counters.run()) for each in services]
        first, second = (Datagrams(each, late_ms=PATIENT_MS) for each in services)
        address = first.open("127.0.0.1", 0)
        second.open("127.0.0.1", 0)
        get = b'{"action":"get","app_name":"a","rule_name":"day"}'
        with socket.socket(fileno=socket.dup(second.fileno())) as spoofed:
            for each in (get, b'{"seq":1}'):
                spoofed.sendto(each, address)
        with connected(address) as client:
            await until(lambda: services[1].dropped["reply"] == 2)
            client.send(get)
            await receive(client, 1)
        assert [each.counts.requests for each in services] == [3, 0]
        for datagrams, service, keeper in zip((first, second), services, keepers, strict=True):
            datagrams.close()
            service.counters.begin_stop()
            await keeper

    asyncio.run(story())
