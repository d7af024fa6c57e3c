"""Frames that are wrong: each ends its link with one line; and any frames at all."""

import random
import re
from pathlib import Path

import pytest

from beanpole.protocol.limits import LINK_CHANNELS_MAX, LINK_ROOM_BYTES, LINK_ROOM_BYTES_MAX
from beanpole.protocol.link import frame
from tests.unit.server.links import CLOSE, DATA, DRAIN, FIN, OPEN, PEER, PING, PUT, ROOM, Front, House, linked, room

WRONG: list[tuple[str, list[tuple[int, int] | tuple[int, int, bytes]]]] = [
    ("kind 9", [(1, 9)]),
    ("size of DATA", [(1, OPEN), (1, DATA)]),
    ("channel of PING", [(1, PING, b"\0")]),
    ("OPEN of a channel that is not free", [(1, OPEN), (1, OPEN)]),
    ("OPEN of a channel that is not free", [(LINK_CHANNELS_MAX + 1, OPEN)]),
    ("OPEN after DRAIN", [(0, DRAIN), (1, OPEN)]),
    ("second DRAIN", [(0, DRAIN), (0, DRAIN)]),
    ("FIN after FIN", [(1, OPEN), (1, FIN), (1, FIN)]),
    ("DATA after FIN", [(1, OPEN), (1, FIN), (1, DATA, b"x")]),
    ("DATA without room", [(1, OPEN), (1, DATA, b"reserve\r\n"), *[(1, DATA, bytes(60_000))] * 8]),
    ("ROOM of 0", [(1, OPEN), (1, ROOM, room(0))]),
    ("ROOM without end", [(1, OPEN), (1, ROOM, room(LINK_ROOM_BYTES_MAX - LINK_ROOM_BYTES + 1))]),
    ("DATA of no channel", [(1, DATA, b"x")]),
    ("ROOM of no channel", [(1, ROOM, room(1))]),
    ("FIN of no channel", [(1, OPEN), (1, CLOSE, b"\0"), (1, FIN)]),
    ("CLOSE of no channel", [(7, CLOSE, b"\0")]),
    ("PING of 2", [(0, PING, b"\2")]),
    ("CLOSE of 2", [(1, OPEN), (1, CLOSE, b"\2")]),
    ("text of OPEN", [(1, OPEN, b"\xff\n")]),
    ("text of OPEN", [(1, OPEN, b"peer a\rb\n")]),
    ("text of OPEN", [(1, OPEN, b"peer a")]),
]


@pytest.mark.parametrize(("reason", "frames"), WRONG)
@pytest.mark.parametrize("asks", [False, True])
def test_wrong_frame_ends_the_link_with_one_line(
    reason: str, frames: list[tuple[int, int] | tuple[int, int, bytes]], asks: bool
) -> None:
    with linked() as (house, other):
        front = Front(house, "front 2", asks=asks)
        other.open(1)
        front.send(*frames)
        assert [each[:2] for each in house.observer.ended] == [("unix" if asks else "front 2", reason)]
        front.receive()
        assert not front.is_open
        assert house.engine.session_count == 1
        assert other.say(1, b"use t\r\n") == b"USING t\r\n"


def test_every_reason_of_the_page_is_tested() -> None:
    page = (Path(__file__).parents[3] / "docs/link.md").read_text()
    table = page.partition("| Reason | |")[2].partition("\n\n")[0]
    reasons = set(re.findall(r"`([^`]+)`", "".join(line.split(" | ")[0] for line in table.splitlines())))
    tested = {"ended", "silent", "first line", "not read", "access", "TLS", "system"}  # the last is the system's
    assert reasons == tested | (
        {reason for reason, _ in WRONG} - {"ROOM of no channel", "FIN of no channel", "CLOSE of no channel"}
    )


def test_any_frames_are_served_or_end_the_link() -> None:
    """Frames at random, most of them right, with bytes changed in some; whatever comes, the server's state is sound.

    Each link that ends has one line, and nobody else notices.
    """
    seen = set()
    for seed in range(30):
        chance = random.Random(seed)
        house = House()
        fronts = [Front(house, "a"), Front(house, "b", asks=True)]
        client = house.connect()
        ended_count = 0
        for _ in range(60):
            front = chance.choice(fronts)
            stream = b"".join(any_frame(chance) for _ in range(chance.randrange(1, 12)))
            if chance.random() < 0.03:
                changed = bytearray(stream)
                changed[chance.randrange(len(changed))] = chance.randrange(256)
                stream = bytes(changed)
            for at in range(0, len(stream), 50):
                front.send_bytes(stream[at : at + 50])
            front.receive()
            if not front.is_open:
                ended_count += 1
                fronts.remove(front)
                fronts.append(Front(house, f"front {seed}", asks=chance.random() < 0.5))
            assert len(house.observer.ended) == ended_count
            assert house.ask(client, b"use t\r\n") == b"USING t\r\n"
            house.now_ns += chance.randrange(10**9)
        seen |= {each[1] for each in house.observer.ended}
        client.close()
        house.close()
    assert len(seen) >= 8, f"the frames are not very different: {seen}"


COMMANDS = [
    PUT,
    b"reserve\r\n",
    b"reserve-with-timeout 1\r\n",
    b"delete 1\r\n",
    b"quit\r\n",
    b"stats\r\n",
    b"put 0 0",
    b"watch t\r\n",
]


def any_frame(chance: random.Random) -> bytes:
    """A frame that may be right."""
    channel = chance.randrange(1, 6)
    kind = chance.choices([OPEN, DATA, FIN, CLOSE, ROOM, PING, DRAIN], [30, 60, 4, 20, 4, 4, 0.3])[0]
    if kind == OPEN:
        return frame(channel, kind, PEER)
    if kind == DATA:
        return frame(channel, kind, b"".join(chance.choices(COMMANDS, k=3)))
    if kind == CLOSE:
        return frame(channel, kind, bytes([chance.randrange(2)]))
    if kind == ROOM:
        return frame(channel, kind, room(chance.randrange(1, 1000)))
    return frame(0, kind, b"\0") if kind == PING else frame(0 if kind == DRAIN else channel, kind)
