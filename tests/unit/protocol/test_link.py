"""Frames of links: in any pieces, by the table of docs/link.md, and what is wrong with one."""

import random
import re
from pathlib import Path

import pytest

from beanpole.protocol import limits
from beanpole.protocol.link import KINDS, FrameReader, first_line, frame, link_line, read_first_line, read_link_line

PAGE = (Path(__file__).parents[3] / "docs/link.md").read_text()
OPEN, DATA, FIN, CLOSE, ROOM, PING, DRAIN = range(1, 8)
SENT = [
    (7, OPEN, b"peer 10.0.0.7:40112\nway tcp\n"),
    (7, DATA, b"reserve\r\n"),
    (1_048_575, DATA, b"x" * 700),
    (7, ROOM, (65_536).to_bytes(4, "little")),
    (0, PING, b"\0"),
    (7, FIN, b""),
    (7, CLOSE, b"\1"),
    (0, DRAIN, b""),
]


def read(reader: FrameReader) -> list[tuple[int, int, bytes]]:
    """All frames that are there."""
    found = []
    while (each := reader.next_frame()) is not None:
        found.append(each)
    return found


def mistake(*sent: bytes, of_front: bool = True) -> str | None:
    """What a reader says of what has come."""
    reader = FrameReader(of_front)
    for each in sent:
        reader.receive(each)
        read(reader)
    return reader.mistake


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 10_000])
def test_frames_are_the_same_in_pieces_of_any_size(size: int) -> None:
    stream = b"".join(frame(*each) for each in SENT)
    reader = FrameReader(True)
    found = []
    for at in range(0, len(stream), size):
        reader.receive(stream[at : at + size])
        found += read(reader)
    assert found == SENT
    assert reader.mistake is None


def test_frames_are_the_same_wherever_the_stream_is_split_in_two() -> None:
    stream = b"".join(frame(*each) for each in SENT if len(each[2]) < 100)
    for at in range(len(stream) + 1):
        reader = FrameReader(True)
        reader.receive(stream[:at])
        found = read(reader)
        reader.receive(stream[at:])
        assert found + read(reader) == [each for each in SENT if len(each[2]) < 100]


def test_largest_frames_follow_each_other_in_the_largest_pieces() -> None:
    payload = b"x" * limits.LINK_DATA_BYTES_MAX
    stream = frame(1, DATA, payload) * 9
    reader = FrameReader(True)
    count = 0
    while stream:
        piece = limits.LINK_READ_BYTES - len(payload) - 8
        reader.receive(stream[:piece])
        stream = stream[piece:]
        for each in read(reader):
            assert each == (1, DATA, payload)
            count += 1
    assert count == 9


def test_kinds_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| (\d) \| ([A-Z]+) \| (not 0|0) \| (front|both) \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert [(int(kind), name, channel == "not 0", sender) for kind, name, channel, sender, _ in rows] == [
        (kind, name, has_channel, "front" if server[0] < 0 else "both")
        for kind, (name, has_channel, _, server) in enumerate(KINDS, 1)
    ]
    for (*_, text), (_, _, front, server) in zip(rows, KINDS, strict=True):
        sizes = [int(each.replace(" ", "")) for each in re.findall(r"\d[\d ]*", text)]
        assert sizes == ([front[0], server[0]] if "server" in text else sorted(set(front)))


@pytest.mark.parametrize("of_front", [True, False])
def test_frame_that_is_not_in_the_table_is_wrong_before_its_payload_comes(of_front: bool) -> None:
    for kind in (0, len(KINDS) + 1, 255):
        assert mistake(frame(1, kind), of_front=of_front) == f"kind {kind}"
    for kind, (name, has_channel, *sizes) in enumerate(KINDS, 1):
        least, most = sizes[0 if of_front else 1]
        channel = int(has_channel)
        if least < 0:
            assert mistake(frame(channel, kind), of_front=of_front) == f"kind {kind}"
            continue
        for size in {least - 1, most + 1} - {-1}:
            header = frame(channel, kind)[:5] + size.to_bytes(3, "little")
            assert mistake(header, of_front=of_front) == f"size of {name}"
        header = frame(1 - channel, kind)[:5] + least.to_bytes(3, "little")
        assert mistake(header, of_front=of_front) == f"channel of {name}"


def test_value_that_says_nothing_is_wrong() -> None:
    assert mistake(frame(1, ROOM, bytes(4))) == "ROOM of 0"
    assert mistake(frame(0, PING, b"\2")) == "PING of 2"
    assert mistake(frame(1, CLOSE, b"\2")) == "CLOSE of 2"


def test_nothing_is_read_after_a_mistake() -> None:
    reader = FrameReader(True)
    reader.receive(frame(1, 9) + frame(*SENT[0]))
    assert read(reader) == []
    assert reader.mistake == "kind 9"


def test_any_bytes_are_frames_or_a_mistake() -> None:
    chance = random.Random(1)
    stream = b"".join(frame(*each) for each in SENT if len(each[2]) < 100)
    for _ in range(20_000):
        changed = bytearray(stream)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        reader = FrameReader(True)
        whole = b""
        at = 0
        while at < len(changed):
            size = chance.randrange(1, 40)
            reader.receive(bytes(changed[at : at + size]))
            whole += b"".join(frame(*each) for each in read(reader))
            at += size
        assert changed.startswith(whole), "what was read is what had come"


def test_first_lines_are_read_as_they_are_written() -> None:
    assert read_first_line(first_line()) == ("-", 0, 0)
    assert read_first_line(first_line("c_1-x", 3, 10**18 - 1)) == ("c_1-x", 3, 10**18 - 1)
    assert read_link_line(link_line(3, 65_535)) == (3, 65_535)
    for wrong in (
        b"beanpole-link 2 - 0 0\r\n",
        b"beanpole-link 1 - 0\r\n",
        b"beanpole-link 1 - 0 -1\r\n",
        b"put 0\r\n",
    ):
        assert read_first_line(wrong) is None
    for wrong in (b"UNKNOWN_COMMAND\r\n", b"LEADER a:1\r\n", b"LINK 1\r\n"):
        assert read_link_line(wrong) is None


def test_first_line_comes_in_pieces_and_frames_follow() -> None:
    stream = first_line() + frame(*SENT[0])
    for at in range(len(stream) + 1):
        reader = FrameReader(True)
        reader.receive(stream[:at])
        line = reader.take_line()
        assert line == (first_line() if at >= len(first_line()) else None)
        reader.receive(stream[at:])
        assert line or reader.take_line() == first_line()
        assert read(reader) == [SENT[0]]


def test_line_that_does_not_end_is_wrong() -> None:
    reader = FrameReader(True)
    reader.receive(b"x" * (limits.LINK_LINE_BYTES_MAX - 1))
    assert (reader.take_line(), reader.mistake) == (None, None)
    reader.receive(b"x")
    assert (reader.take_line(), reader.mistake) == (None, "first line")
