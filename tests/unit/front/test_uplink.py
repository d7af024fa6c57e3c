"""A front's way to its server: which one takes the link, and what is said of those that don't."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from beanpole.client.login import Login
from beanpole.front.uplink import Uplink
from beanpole.protocol.link import FrameReader, first_line, leader_line, link_line
from beanpole.server.tlsfilter import Filter
from tests.certificates import made
from tests.servers import HOST, REPLY_TIMEOUT_S

Failure = tuple[str, str, bool]


class Front:
    """Remembers the links that it was given."""

    def __init__(self) -> None:
        self.links: asyncio.Queue[tuple[socket.socket, FrameReader]] = asyncio.Queue()
        self.lines: list[tuple[object, ...]] = []
        self.observer = SimpleNamespace(link_closed=lambda *about: self.lines.append(about))
        self.on_link_end: Callable[[str, int], None] | None = None
        self.closed = 0
        self.encrypted: list[bool] = []

    def attach(self, link_fd: int, reader: FrameReader, asks: bool, tls: Filter | None = None) -> None:
        assert asks
        self.encrypted.append(tls is not None)
        self.links.put_nowait((socket.socket(fileno=link_fd), reader))

    def close_link(self) -> None:
        self.closed += 1


class House:
    """Servers that answer the first line as a test says, and an uplink to them."""

    def __init__(self) -> None:
        self.servers: list[asyncio.Server] = []
        self.asked: list[bytes] = []
        self.front = Front()
        self.opened: list[str] = []
        self.failures: asyncio.Queue[Failure] = asyncio.Queue()

    async def server(self, answer: Callable[[], bytes], *, tls: bool = False) -> str:
        """The address of one; an empty answer closes the connection."""
        context = None
        if tls:
            pair = made("server", f"subjectAltName=IP:{HOST}", signer="ca")
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(pair.cert, pair.key)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while (line := await reader.readline()).startswith(b"auth "):
                self.asked.append(line)
            self.asked.append(line)
            writer.write(answer())
            writer.close()

        self.servers.append(await asyncio.start_server(serve, HOST, 0, ssl=context))
        return ("beanstalks://" if tls else "") + "{}:{}".format(*self.servers[-1].sockets[0].getsockname())

    def link(self, *addresses: str, login: Login | None = None) -> Uplink:
        self.uplink = Uplink(
            self.front,
            addresses,
            login=login,
            on_open=self.opened.append,
            on_failure=lambda *about: self.failures.put_nowait(about),
        )
        self.uplink.start()
        return self.uplink


def run(test: Callable[[House], Awaitable[None]]) -> None:
    async def bounded() -> None:
        house = House()
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            await test(house)
        house.uplink.close()
        assert house.front.closed == 1
        for each in house.servers:
            each.close()
        while not house.front.links.empty():
            house.front.links.get_nowait()[0].close()

    asyncio.run(bounded())


def test_link_is_attached_with_what_came_behind_its_line_and_looked_for_again_when_it_ends() -> None:
    async def test(house: House) -> None:
        address = await house.server(lambda: link_line(0, 65_535) + b"more")
        uplink = house.link(address)
        for count in (1, 2):
            link, reader = await house.front.links.get()
            link.close()
            assert house.asked == [first_line()] * count
            assert reader.next_frame() is None
            assert (uplink.address, house.opened) == (address, [address] * count)
            assert house.front.on_link_end is not None
            house.front.on_link_end("ended", 3)
            assert await house.failures.get() == (address, "ended", False)
            assert house.front.lines == [(address, "ended", 3, None)] * count
            assert uplink.address == ""

    run(test)


def test_server_that_leads_is_followed_and_asked_again_by_who_told_of_it() -> None:
    async def test(house: House) -> None:
        leader = await house.server(lambda: link_line(0, 1))
        follower = await house.server(lambda: leader_line(leader))
        house.link(follower)
        (await house.front.links.get())[0].close()
        assert house.opened == [leader]

    run(test)


def test_nodes_that_take_each_other_for_the_leader_are_not_followed_for_ever() -> None:
    async def test(house: House) -> None:
        first = await house.server(lambda: leader_line(second))
        second = await house.server(lambda: leader_line(first))
        third = await house.server(lambda: link_line(0, 1))
        house.link(first, third)
        (await house.front.links.get())[0].close()
        address, reason, is_refusal = await house.failures.get()
        assert (address, is_refusal) == (first, False)
        assert "does not lead" in reason
        assert (len(house.asked), house.opened) == (3, [third])

    run(test)


@pytest.mark.parametrize(
    ("answer", "reason", "is_refusal"),
    [
        (b"UNKNOWN_COMMAND\r\n", "takes no links", True),
        (b"LINK 0 1 2\r\n", "takes no links", True),
        (b"x" * 600, "takes no links", True),
        (b"", "does not lead the cluster", False),
    ],
    ids=["no links", "another version", "no line", "closes"],
)
def test_next_address_is_asked_when_one_takes_no_link(answer: bytes, reason: str, is_refusal: bool) -> None:
    async def test(house: House) -> None:
        other, ours = await house.server(lambda: answer), await house.server(lambda: link_line(0, 1))
        house.link(other, ours)
        (await house.front.links.get())[0].close()
        failure = await house.failures.get()
        assert (failure[0], failure[2]) == (other, is_refusal)
        assert reason in failure[1]

    run(test)


def test_server_that_takes_no_link_for_now_is_there() -> None:
    """One that has no place says nothing; one that can't serve closes, and is known if it took a link before."""

    async def test(house: House) -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server((HOST, 0)) as server:
            server.setblocking(False)
            uplink = house.link("{}:{}".format(*server.getsockname()))
            for answer, is_there in ((b"", False), (link_line(0, 1), False), (b"", True)):
                asking, _ = await loop.sock_accept(server)
                assert await loop.sock_recv(asking, 100) == first_line()
                assert uplink.is_there
                await loop.sock_sendall(asking, answer)
                asking.close()
                if answer:
                    (await house.front.links.get())[0].close()
                    assert house.front.on_link_end is not None
                    house.front.on_link_end("ended", 0)
                await house.failures.get()
                assert uplink.is_there == is_there

    run(test)


def test_address_at_which_nobody_listens_is_tried_again_and_again() -> None:
    async def test(house: House) -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            address = "{}:{}".format(*taken.getsockname())
            house.link(address)
            for _ in range(3):
                found, reason, is_refusal = await house.failures.get()
                assert (found, is_refusal) == (address, False)
                assert "Connect call failed" in reason or "refused" in reason

    run(test)


# --- TLS, and who this is ---------------------------------------------------------------------------------------------


def shown() -> Login:
    return Login(ca=made("ca").cert, token="bp_secret")  # noqa: S106 - of a test


def test_token_goes_over_tls_in_front_of_the_first_line_and_what_comes_behind_is_kept_encrypted() -> None:
    async def test(house: House) -> None:
        address = await house.server(lambda: b"AUTHENTICATED router\r\n" + link_line(0, 1), tls=True)
        house.link(address, login=shown())
        (await house.front.links.get())[0].close()
        assert house.asked == [b"auth bp_secret\r\n", first_line()]
        assert (house.opened, house.front.encrypted) == ([address], [True])

    run(test)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"NOT_AUTHENTICATED\r\n", "the server does not know who this is"),
        (b"UNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\n", "has no users, or takes no token here"),
        (b"LEADER a:1\r\n", "without TLS"),
    ],
)
def test_server_that_does_not_know_the_token_is_asked_again(answer: bytes, reason: str) -> None:
    async def test(house: House) -> None:
        address = await house.server(lambda: answer, tls=True)
        house.link(address, login=shown())
        for _ in range(2):
            found, said, is_refusal = await house.failures.get()
            assert (found, is_refusal) == (address, False)
            assert reason in said

    run(test)


def test_certificate_of_another_name_or_signer_is_sent_nothing() -> None:
    async def test(house: House) -> None:
        address = await house.server(lambda: link_line(0, 1), tls=True)
        house.link(address.replace(HOST, "localhost"), login=shown())
        assert "is for other names" in (await house.failures.get())[1]
        house.uplink.close()
        house.front.closed = 0
        house.link(address, login=Login(token="bp_secret"))  # noqa: S106 - of a test
        assert "from a CA that is trusted here" in (await house.failures.get())[1]
        assert house.asked == []

    run(test)


def test_token_is_not_sent_without_tls() -> None:
    async def test(house: House) -> None:
        house.link(await house.server(lambda: link_line(0, 1)), login=shown())
        (await house.front.links.get())[0].close()
        assert (house.asked, house.front.encrypted) == ([first_line()], [False])

    run(test)
