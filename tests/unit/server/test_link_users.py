"""Who the clients of a link are, of a server with users: what its front says counts as far as it is trusted."""

import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from beanpole.access import tokens
from beanpole.protocol.evidence import Evidence
from beanpole.protocol.link import first_line, frame
from beanpole.server import limits
from beanpole.server.link import open_link
from tests.unit.server import test_door
from tests.unit.server.links import CLOSE, OPEN, Front
from tests.unit.server.test_door import NOW_S, finished

USERS = f"""
[user.router]
unix = [{os.getuid()}]
links = ["shop"]
[user.shop]
certificates = ["CN=shop"]
unix = ["www-data-of-another-machine"]
connections = 3
[user.mail]
certificates = ["CN=mail"]
unix = [{os.getuid() + 1}]
[user.plain]
connections = 2
"""

NOT_AUTHENTICATED = b"NOT_AUTHENTICATED\r\n"
NODE_KEY = b"bp_" + b"n" * 43


class House(test_door.House):
    """A server with users, and with links of each trust."""

    def __init__(self, folder: Path, **given: int) -> None:
        super().__init__(folder, **given)
        self.clients.open_link = open_link
        self.loop.call_later = lambda *_: Timer()  # type: ignore[method-assign,assignment]
        self.fronts: list[Front] = []
        self.engine = self.clients.turn.engine
        self.plain = tokens.add(folder / "tokens", "plain", until=NOW_S + 100)
        self.door.node_digest = sha256(NODE_KEY).digest()
        self.read(USERS)

    def read(self, text: str) -> None:
        """Go by files that say this from now on, and look at all who may have to go."""
        self.write(text)
        self.door.take(finished(self.door))
        for _ in range(3):  # it compares, looks, and closes
            self.call()

    def connect(self, said: bytes = b"") -> socket.socket:
        """Connect as one whose end only the test looks at."""
        client = super().connect(said)
        self.open.remove(client)
        return client

    def link(self, trust: str) -> Front:
        """A front that may speak for all, for those of a list, or for nobody."""
        if trust == "front":
            return Front(self, entry=self.door.front("front 1"))  # type: ignore[arg-type]
        said = {"node": b"auth " + NODE_KEY + b"\r\n", "list": b"", "none": b"auth " + self.plain + b"\r\n"}[trust]
        name = {"node": b"-", "list": b"", "none": b"plain"}[trust]
        front = Front(self, opened=False, connect=lambda: self.connect(said + first_line()))  # type: ignore[arg-type]
        answered = b"AUTHENTICATED " + name + b"\r\n" if name else b""
        assert front.receive_bytes() == answered + b"LINK 0 65535\r\n"
        return front

    def close(self) -> None:
        for each in self.fronts:
            each.close()
        self.run()
        super().close()
        assert self.door.crowd.count == 0
        assert [each.connection_count for each in self.door.users.values()] == [0] * len(self.door.users)
        assert self.door.ends == {}


class Timer:
    """What a loop returns for a call."""

    def cancel(self) -> None:
        """Nothing was to be called."""


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    with ExitStack() as stack:

        def opened(**given: int) -> House:
            return stack.enter_context(closing(House(tmp_path, **given)))

        yield opened


def who(front: Front, channel: int, about: bytes, said: bytes = b"") -> str:
    """Whose a client is; what it is answered if it is nobody's."""
    front.open(channel, said + b"list-rights\r\n", about)
    heard = front.heard(channel)
    name = heard.partition(b"user: ")[2].partition(b"\n")[0]
    return name.decode() or heard.decode().strip()


def shown(**about: Any) -> bytes:  # noqa: ANN401 - what Evidence takes
    return Evidence(peer="10.0.0.7:40112", **about).text()


NOBODY = "UNKNOWN_COMMAND"
CASES = [
    # what a front says of a client: who it is by a front of the server's own, with a list of users, and with none
    (shown(), NOBODY, "router", "plain"),
    (shown(user="shop"), "shop", "shop", "plain"),
    (shown(user="mail"), "mail", NOBODY, "plain"),
    (shown(user="gone"), NOBODY, NOBODY, "plain"),
    (shown(way="unix", uid="www-data-of-another-machine"), "shop", "shop", "plain"),
    (shown(way="unix", uid=str(os.getuid() + 1)), "mail", NOBODY, "plain"),
    (shown(way="unix", uid="nobody-knows"), NOBODY, "router", "plain"),
    (shown(way="tls", certificates=("DNS:x", "CN=shop"), until=NOW_S + 9), "shop", "shop", "plain"),
    (shown(way="tls", certificates=("CN=mail",), until=NOW_S + 9), "mail", NOBODY, "plain"),
    (shown(way="tls", certificates=("CN=shop", "CN=mail"), until=NOW_S + 9), NOBODY, NOBODY, "plain"),
    (shown(way="tls", certificates=("CN=x",), until=NOW_S + 9), NOBODY, NOBODY, "plain"),
    (shown(way="tls", certificates=("CN=shop",), until=NOW_S - 1), NOBODY, NOBODY, "plain"),
    (shown(way="tls", until=NOW_S + 9), NOBODY, NOBODY, "plain"),
    (shown(way="tls", user="shop", certificates=("CN=mail",), until=NOW_S + 9), "mail", NOBODY, "plain"),
]


@pytest.mark.parametrize(("trust", "column"), [("front", 1), ("node", 1), ("list", 2), ("none", 3)])
def test_who_a_client_is(open_house: Callable[..., House], trust: str, column: int) -> None:
    house = open_house()
    front = house.link(trust)
    found = []
    for number, (about, *_) in enumerate(CASES, 1):
        found.append(who(front, number, about))
        front.send((number, CLOSE, b"\0"))
    assert found == [case[column] for case in CASES]


@pytest.mark.parametrize("trust", ["front", "node", "list", "none"])
def test_a_token_counts_where_nobody_can_read_it(open_house: Callable[..., House], trust: str) -> None:
    house = open_house()
    front = house.link(trust)
    auth = b"auth " + house.token + b"\r\n"
    assert [who(front, 1, shown(way="tls"), auth), who(front, 2, shown(way="unix"), auth)] == ["shop", "shop"]
    assert who(front, 5, shown(way="unix", uid=str(os.getuid() + 1)), auth) == "shop", "whatever its front may say"
    front.open(3, auth + b"quit\r\n", shown())
    refused = NOT_AUTHENTICATED if trust in {"front", "node"} else b"UNKNOWN_COMMAND\r\n"
    assert front.heard(3) == refused
    front.open(4, b"auth " + NODE_KEY + b"\r\n", shown(way="tls"))
    assert front.heard(4) == NOT_AUTHENTICATED, "a node is no client of a link"


def test_the_first_line_of_a_channel_comes_in_any_pieces(open_house: Callable[..., House]) -> None:
    house = open_house()
    front = house.link("front")
    front.open(1, b"", shown(way="tls"))
    for byte in b"auth " + house.token + b"\r":
        assert front.say(1, bytes([byte])) == b""
    assert front.say(1, b"\nuse a\r\n") == b"AUTHENTICATED shop\r\nUSING a\r\n"
    assert front.say(1, first_line()) == b"UNKNOWN_COMMAND\r\n", "there is no link in a link"


@pytest.mark.parametrize(
    ("key", "refused"), [(NODE_KEY, b"UNKNOWN_COMMAND\r\n"), (b"bp_" + b"m" * 43, NOT_AUTHENTICATED)]
)
def test_the_key_of_nodes_is_for_links_alone(open_house: Callable[..., House], key: bytes, refused: bytes) -> None:
    house = open_house()
    if key != NODE_KEY:
        house.door.node_digest = b""
    with house.connect(b"auth " + key + b"\r\nlist-rights\r\n") as client:
        assert client.recv(999).endswith(refused)
        assert client.recv(1) == b""


def test_the_lines_of_a_link_come_in_any_pieces(open_house: Callable[..., House]) -> None:
    house = open_house()
    lines = b"auth " + NODE_KEY + b"\r\n" + first_line()
    front = Front(house, opened=False, connect=lambda: house.connect(lines[:1]))  # type: ignore[arg-type]
    for at in range(1, len(lines)):
        front.send_bytes(lines[at : at + 1])
    assert front.receive_bytes() == b"AUTHENTICATED -\r\nLINK 0 65535\r\n"


def test_nobody_names_whom_its_trust_lacks(open_house: Callable[..., House]) -> None:
    """Whatever a front makes up, in any order, while the files change; and nothing is left of it, see `House.close`."""
    house = open_house()
    front = house.link("list")
    chance = random.Random(33)
    names = ["shop", "mail", "plain", "router", "gone", "www-data-of-another-machine", str(os.getuid() + 1), "root"]
    values = [*names, *(f"CN={each}" for each in names), "uid shop", "0", "", "9" * 15]
    keys = ["peer", "way", "user", "uid", "certificate", "until", "map", "other"]
    found, links = set(), {"shop"}
    open_channels: set[int] = set()
    for _ in range(300):
        if chance.random() < 0.1:
            links = set(chance.sample(["shop", "mail"], chance.randrange(3)))
            house.read(USERS.replace('links = ["shop"]', f"links = {sorted(links)}"))
            house.pass_time(chance.randrange(20))
            house.call()
        for number, kind, _ in front.receive():
            if kind == CLOSE and number in open_channels:
                front.send((number, CLOSE, b"\0"))
                open_channels.remove(number)
        number = chance.randrange(1, 9)
        if number in open_channels:
            front.send((number, CLOSE, b"\0"))
            open_channels.remove(number)
            continue
        rows = [f"{chance.choice(keys)} {chance.choice(values)}\n" for _ in range(chance.randrange(5))]
        open_channels.add(number)
        name = who(front, number, "".join(rows).encode())
        assert name in {"router", NOBODY, *links}
        found.add(name)
    assert found == {"shop", "mail", "router", NOBODY}


# --- who has to leave -------------------------------------------------------------------------------------------------


def test_a_link_that_may_name_somebody_no_more_loses_these_clients(open_house: Callable[..., House]) -> None:
    house = open_house()
    front = house.link("list")
    assert [who(front, 1, shown(user="shop")), who(front, 2, shown())] == ["shop", "router"]
    assert who(front, 3, shown(way="tls"), b"auth " + house.token + b"\r\n") == "shop"
    assert who(front, 5, shown(way="tls", user="shop"), b"auth " + house.plain + b"\r\n") == "plain"
    house.read(USERS.replace('links = ["shop"]', 'links = ["mail"]'))
    assert [each[:2] for each in front.receive()] == [(1, CLOSE)], "a token is its client's own"
    assert who(front, 4, shown(user="mail")) == "mail"


def test_a_user_that_goes_takes_its_clients_of_all_links_with_it(open_house: Callable[..., House]) -> None:
    house = open_house()
    own, front = house.link("front"), house.link("list")
    assert [who(own, 1, shown(user="shop")), who(own, 2, shown(user="mail"))] == ["shop", "mail"]
    assert who(front, 1, shown(user="shop")) == "shop"
    (house.folder / "tokens").write_text("# none\n")
    house.read(f"[user.router]\nunix = [{os.getuid()}]\n[user.mail]\n")
    assert [each[:2] for each in own.receive()] == [(1, CLOSE)]
    assert [each[:2] for each in front.receive()] == [(1, CLOSE)]
    house.read("[user.mail]\n")
    assert front.receive() == []
    assert not front.is_open, "its own user is gone"
    assert own.is_open


def test_a_client_goes_when_what_its_front_has_seen_ends(open_house: Callable[..., House]) -> None:
    house = open_house()
    front = house.link("list")
    for number, user in enumerate(("shop", "mail"), 1):
        about = shown(way="tls", certificates=(f"CN={user}",), until=NOW_S + 5)
        assert who(front, number, about) == ("shop" if number == 1 else NOBODY)
    front.receive()
    house.pass_time(5)
    house.call()
    assert front.receive() == [(1, CLOSE, b"")]


def test_strangers_of_a_front_have_ten_seconds_and_a_part_of_the_places(open_house: Callable[..., House]) -> None:
    house = open_house(connections_max=16)
    front = house.link("front")
    front.send(*[(each, OPEN, b"peer 10.0.0.%d:%d\n" % (each // 4, each)) for each in range(1, 6)])
    assert [each[0] for each in front.receive()] == [1], "the oldest of the source with most goes"
    house.pass_time(limits.STRANGER_S)
    house.call()
    assert [each[0] for each in front.receive()] == [2, 3, 4, 5]


def test_whom_a_front_may_not_name_is_of_one_source_whatever_it_says(open_house: Callable[..., House]) -> None:
    house = open_house(connections_max=16)
    own, front = house.link("front"), house.link("list")
    own.open(1, about=b"peer 10.0.0.7:1\n")
    for number in range(1, 6):
        front.open(number, about=b"peer 10.0.1.%d:1\nuser mail\n" % number)
    assert own.receive() == []
    assert [each[0] for each in front.receive()] == [1, 2]


def test_a_stranger_makes_room_for_a_client_of_a_link(open_house: Callable[..., House]) -> None:
    house = open_house(connections_max=2)
    stranger = house.link("front")
    stranger.open(1)
    front = house.link("list")
    assert [who(front, 1, shown()), who(front, 2, shown())] == ["router", "router"]
    assert [each[:2] for each in stranger.receive()] == [(1, CLOSE)]
    front.open(3)
    assert front.receive() == [(3, CLOSE, b"")], "there is nobody to make room"


def test_all_links_together_bring_no_more_clients_in_a_turn_than_one(open_house: Callable[..., House]) -> None:
    house = open_house()
    fronts = [house.link("list") for _ in range(3)]
    count = limits.ACCEPTS_PER_TURN
    for front in fronts:
        front.socket.send(b"".join(frame(number, OPEN) for number in range(1, count + 1)))
    taken = []
    for _ in range(5):
        house.clients.run()
        taken.append(house.engine.session_count)
    steps = [after - before for before, after in pairwise([0, *taken])]
    assert max(steps) <= count + 2 * len(fronts), "each has one, before and behind the turn, or it would starve"
    assert taken[-1] == 3 * count


def test_links_and_channels_count_among_the_connections_of_whom_they_are(open_house: Callable[..., House]) -> None:
    house = open_house()
    plain = house.link("none")
    assert [who(plain, 1, shown()), who(plain, 2, shown())] == ["plain", NOBODY]
    with house.connect(b"auth " + house.plain + b"\r\n" + first_line()) as other:
        assert other.recv(99) == NOT_AUTHENTICATED
        assert other.recv(1) == b""
    plain.close()
    house.run()
    assert who(house.link("none"), 1, shown()) == "plain"
    front = house.link("list")
    assert [who(front, each, shown(user="shop")) for each in range(1, 5)] == ["shop", "shop", "shop", NOBODY]


def test_a_user_takes_no_memory_by_high_numbers(open_house: Callable[..., House]) -> None:
    front = open_house().link("none")
    front.open(2_000)
    front.receive()
    assert not front.is_open
