"""Who has to leave a server with users, by a clock that the test sets."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from beanpole.access import tokens
from beanpole.client.rights import Rights
from beanpole.engine.engine import Engine
from beanpole.errors import StartError
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.door import Door
from beanpole.server.epoll import EpollTransport
from beanpole.server.observer import Observer
from beanpole.server.places import parse
from beanpole.server.settings import Settings
from beanpole.server.turn import Turn
from tests.unit.server.test_turn import Loop

if TYPE_CHECKING:
    import asyncio

NOW_S = 1_000_000.0


class Logger:
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, **about: object) -> None:
        self.said.append((event, about))

    info = error = warning


class House:
    """A server with users and a Unix socket, without a process."""

    def __init__(self, folder: Path, connections_max: int = 1_000) -> None:
        self.folder = folder
        self.access = folder / "access.toml"
        self.write(
            f"[user.me]\nunix = [{os.getuid() + 1}]\n[user.shop]\nconnections = 200\n"
            "[space.'shop.*']\nlimits = { jobs = 9 }\n"
        )
        self.now_s = NOW_S
        self.loop = Loop()
        self.logger = Logger()
        log = Log()
        engine = Engine(now_ns=1, records=log.records)
        observer = Observer(self.logger)  # type: ignore[arg-type]
        self.clients = EpollTransport(Turn(engine, log), self.loop, observer, connections_max)  # type: ignore[arg-type]
        settings = Settings(listen=(f"unix:{folder}/socket",), access=str(self.access), tokens=str(folder / "tokens"))
        self.token = tokens.add(folder / "tokens", "shop", until=NOW_S + 5)
        self.door = Door(settings, [parse(each) for each in settings.listen], wall=lambda: self.now_s)
        (self.listener,) = self.door.entrance.bind(0, [])
        self.listener.setblocking(False)
        self.listener.listen(1_000)
        self.loop.call_later = lambda *_: None  # type: ignore[method-assign]
        self.door.open(self.clients, [self.listener], self.logger, self.loop)  # type: ignore[arg-type]
        self.open: list[socket.socket] = []

    def write(self, text: str) -> None:
        self.access.write_text(text)
        self.access.chmod(0o644)

    def connect(self, said: bytes = b"") -> socket.socket:
        """A client that is accepted, and has said something."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(f"{self.folder}/socket")
        client.setblocking(False)
        client.send(said or b"a")
        self.open.append(client)
        self.run()
        return client

    def run(self) -> None:
        """Run turns until what has come is done, and nothing else."""
        for _ in range(3):
            self.clients.run()

    def pass_time(self, seconds: float) -> None:
        """Let the door look when so much time has passed."""
        self.now_s += seconds
        self.door.look()

    def call(self) -> int:
        """Call what is due once; return how many clients are open after that."""
        due, self.loop.due = self.loop.due, []
        for each in due:
            each()
        self.run()
        return sum(not is_closed(each) for each in self.open)

    def close(self) -> None:
        self.clients.stop_accepting()
        self.clients.close_all()
        self.listener.close()
        for each in self.open:
            each.close()


def is_closed(client: socket.socket) -> bool:
    try:
        while client.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    with contextlib.ExitStack() as stack:

        def opened(**given: int) -> House:
            return stack.enter_context(contextlib.closing(House(tmp_path, **given)))

        yield opened


def test_a_stranger_has_ten_seconds(open_house: Callable[..., House]) -> None:
    house = open_house()
    house.connect(b"au")
    house.pass_time(limits.STRANGER_S - 1)
    assert house.call() == 1
    house.pass_time(1)
    assert house.call() == 0
    assert house.door.crowd.count == 0


def test_strangers_have_a_part_of_the_places_and_the_oldest_goes(open_house: Callable[..., House]) -> None:
    house = open_house(connections_max=8)
    strangers = [house.connect(b"au") for _ in range(3)]
    assert [is_closed(each) for each in strangers] == [True, False, False]


def test_who_comes_by_a_token_goes_when_that_ends(open_house: Callable[..., House]) -> None:
    house = open_house()
    client = house.connect(b"auth %b\r\n" % house.token)
    assert client.recv(99) == b"AUTHENTICATED shop\r\n"
    house.pass_time(4)
    assert house.call() == 1
    house.pass_time(1)
    assert house.call() == 0
    assert house.door.ends == {}


def test_what_is_known_of_a_client_goes_with_it(open_house: Callable[..., House]) -> None:
    house = open_house()
    house.connect(b"auth %b\r\nquit\r\n" % house.token)
    assert (house.door.ends, house.door.crowd.count, house.door.users["shop"].connection_count) == ({}, 0, 0)


def test_many_who_have_to_go_do_so_a_piece_a_turn(open_house: Callable[..., House]) -> None:
    house = open_house()
    count = 2 * limits.CLOSED_PER_TURN + 10
    for _ in range(count):
        house.connect(b"auth %b\r\n" % house.token)
    house.write("[user.me]\n")
    (house.folder / "tokens").write_text("# none\n")
    house.door.take(finished(house.door))
    left = [house.call() for _ in range(4)]
    assert left == [count, count - limits.CLOSED_PER_TURN, count - 2 * limits.CLOSED_PER_TURN, 0]


def test_many_lines_are_written_a_piece_a_turn(open_house: Callable[..., House]) -> None:
    house = open_house()
    users = "".join(f"[user.u{each}]\n" for each in range(2 * limits.LINES_PER_TURN))
    house.write(f"[user.shop]\n{users}")
    house.door.take(finished(house.door))
    house.logger.said.clear()
    house.pass_time(1)
    said = [len(house.logger.said)]
    for _ in range(2):
        house.call()
        said.append(len(house.logger.said))
    one_of_its_token = 1
    assert said == [limits.LINES_PER_TURN, 2 * limits.LINES_PER_TURN, 2 * limits.LINES_PER_TURN + one_of_its_token]


def test_a_user_has_no_more_connections_than_the_file_says(open_house: Callable[..., House]) -> None:
    house = open_house()
    house.write("[user.shop]\nconnections = 2\n")
    house.door.take(finished(house.door))
    clients = [house.connect(b"auth %b\r\n" % house.token) for _ in range(3)]
    assert [is_closed(each) for each in clients] == [False, False, True]


def test_a_right_that_the_file_gives_reaches_those_who_wait(open_house: Callable[..., House]) -> None:
    house = open_house()
    rights = f"[user.shop]\nunix = [{os.getuid()}]\nput = ['a']\nreserve = ['b']\n"
    house.write(rights)
    house.door.take(finished(house.door))
    client = house.connect(b"use a\r\nput 0 0 60 1\r\nx\r\nwatch a\r\nwatch b\r\nreserve\r\n")
    assert client.recv(99) == b"USING a\r\nINSERTED 1\r\nWATCHING 2\r\nWATCHING 3\r\n"
    house.write(rights.replace("'b'", "'a', 'b'"))
    house.door.take(finished(house.door))
    house.run()
    assert client.recv(99) == b"RESERVED 1 1\r\nx\r\n"


def test_who_begins_tls_where_there_is_none_is_closed(open_house: Callable[..., House]) -> None:
    house = open_house()
    house.write(f"[user.shop]\nunix = [{os.getuid()}]\n")
    house.door.take(finished(house.door))
    client = house.connect(b"\x16\x03\x01\x02\x00\x01")
    assert client.recv(99) == b"UNKNOWN_COMMAND\r\n"
    assert is_closed(client)
    assert house.logger.said[-1][1]["reason"] == "it begins TLS where there is none"


@pytest.mark.parametrize("word", [b"auth x\r\n", b"beanpole-link 1\r\n", b"list-extensions\r\n"])
def test_a_new_word_is_known_in_pieces_as_well(open_house: Callable[..., House], word: bytes) -> None:
    house = open_house()
    client = house.connect(word[:4])
    client.send(word[4:])
    house.run()
    assert client.recv(99) == b"NOT_AUTHENTICATED\r\n"


def test_a_port_of_systemd_needs_a_user_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "access.toml"
    file.write_text("[user.me]\n")
    file.chmod(0o644)
    monkeypatch.setenv("LISTEN_FDNAMES", "a")
    door = Door(Settings(access=str(file)), [parse("fd:a")])
    with (
        socket.create_server(("127.0.0.1", 0)) as handed,
        pytest.raises(StartError, match="nobody can be anybody there"),
    ):
        door.entrance.bind(0, [handed])


def finished(door: Door) -> "asyncio.Future[Any]":
    """What reading the files brings."""

    class Done:
        def result(self) -> object:
            assert door.files is not None
            return door.files.read()

    return Done()  # type: ignore[return-value]


def test_the_console_is_told_of_users_and_spaces(open_house: Callable[..., House]) -> None:
    """Its session is no user's: it has all rights, and asks for the metrics of all."""
    house = open_house()
    ours, theirs = socket.socketpair()
    house.open.append(theirs)
    house.clients.adopt(ours.detach())
    theirs.send(b"list-extensions\r\nlist-rights\r\n")
    house.run()
    said = theirs.recv(65_536)
    listed = said.partition(b"\r\n")[2].partition(b"\r\n")[0].splitlines()[1:]
    assert b"- list-rights" in listed
    assert listed == sorted(listed)
    assert b"- forbidden" not in listed
    rights = Rights.parse(said.rpartition(b"OK ")[2].partition(b"\r\n")[2].removesuffix(b"\r\n"))
    assert set(rights.users) == {"me", "shop"}
    assert list(rights.spaces) == ["shop.*"]
