"""Links that are asked for where clients connect: who gets one, and what its clients count as."""

from contextlib import closing

import pytest

from beanpole.protocol.link import first_line
from tests.unit.server.links import CLOSE, OPEN, PEER, PUT, Front, House


def test_link_can_be_asked_for_at_a_listener_in_any_pieces() -> None:
    line = first_line(map_epoch=7)
    for size in (1, 9, len(line)):
        with closing(House()) as house:
            front = Front(house, opened=False, asks=True)
            other = house.connect()
            for at in range(0, len(line), size):
                assert house.facts["total-connections"] == 2
                front.send_bytes(line[at : at + size])
                assert house.ask(other, b"use t\r\n") == b"USING t\r\n"
            assert front.receive_bytes() == b"LINK 0 65535\r\n"
            assert house.observer.opened == ["unix"]
            front.open(1, PUT, PEER)
            assert front.heard(1) == b"INSERTED 1\r\n"
            assert house.engine.session_count == 2, "the link is no client"
            assert {key: house.clients.link_facts()[key] for key in ("links", "link-channels", "link-map-epoch")} == {
                "links": "1",
                "link-channels": "1",
                "link-map-epoch": "7",
            }
            assert house.log.link_count == 1, "no sync in the loop may let it look dead"
            assert front.say(1, line) == b"UNKNOWN_COMMAND\r\n", "a link in a link"
            other.close()


@pytest.mark.parametrize("command", [b"bury 1 2\r\n", b"beanpole\r\n", b"b\r\n", b"\r\n"])
def test_client_of_a_listener_that_begins_a_little_like_a_link_is_none(command: bytes) -> None:
    with closing(House()) as house:
        client = house.connect()
        for at in range(len(command) - 1):
            assert house.ask(client, command[at : at + 1]) == b""
        assert house.ask(client, command[-1:]) in {b"NOT_FOUND\r\n", b"UNKNOWN_COMMAND\r\n"}
        assert house.ask(client, first_line()) == b"UNKNOWN_COMMAND\r\n", "this is not the first line"
        client.close()


@pytest.mark.parametrize(
    ("line", "is_taken"),
    [
        (first_line(), True),
        (first_line("c", 3), True),
        (first_line("c"), True),
        (first_line("c", 2), False),
        (first_line("d", 3), False),
        (first_line("-", 3), False),
        (b"beanpole-forward c 3\r\n\r\n", False),
    ],
)
def test_leader_takes_links_for_itself_and_says_nothing_to_others(line: bytes, is_taken: bool) -> None:
    with closing(House()) as house:
        house.clients.link_targets = {("-", 0), ("c", 0), ("c", 3)}
        front = Front(house, opened=False, asks=True)
        front.send_bytes(line)
        assert front.receive_bytes() == (b"LINK 0 65535\r\n" if is_taken else b"")
        assert front.is_open == is_taken
        assert house.observer.ended == []


def test_clients_of_links_count_as_clients() -> None:
    with closing(House(connections_max=2)) as house:
        front = Front(house, asks=True)
        front.open(1)
        client = house.connect()
        front.open(2, b"use t\r\n")
        assert front.receive() == [(2, CLOSE, b"")]
        late = house.connect()
        assert house.ask(late, b"use t\r\n") == b""
        assert house.observer.pauses == ["EMFILE"]
        front.send((2, CLOSE, b"\0"), (1, CLOSE, b"\0"))
        house.run()
        assert late.recv(100) == b"USING t\r\n"
        for each in (client, late):
            each.close()


def test_clients_of_links_take_no_descriptor() -> None:
    with closing(House()) as house:
        house.clients.sockets_max = 2
        front = Front(house, asks=True)
        front.send(*[(each, OPEN) for each in range(1, 10)])
        assert front.receive() == []
        client = house.connect()
        assert house.ask(client, b"use t\r\n") == b"USING t\r\n"
        late = house.connect()
        assert house.ask(late, b"use t\r\n") == b"", "a link has one, too"
        front.close()
        house.run()
        assert late.recv(100) == b"USING t\r\n"
        for each in (client, late):
            each.close()
