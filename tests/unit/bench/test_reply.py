"""Replies in whatever pieces: whole, byte by byte, and with the beginning of the next behind them."""

import pytest

from beanpole.bench.reply import Kind, ReplyError, ReplyReader

CASES = [
    (b"INSERTED 1\r\n", (Kind.INSERTED, 1, 0)),
    (b"INSERTED 18446744073709551615\r\n", (Kind.INSERTED, 2**64 - 1, 0)),
    (b"RESERVED 7 5\r\nhello\r\n", (Kind.RESERVED, 7, 5)),
    (b"RESERVED 7 0\r\n\r\n", (Kind.RESERVED, 7, 0)),
    (b"RESERVED 7 9\r\n\r\nDELETED\r\n", (Kind.RESERVED, 7, 9)),
    (b"RESERVED 8 1000\r\n" + b"\n" * 1000 + b"\r\n", (Kind.RESERVED, 8, 1000)),
    (b"DELETED\r\n", (Kind.DELETED, 0, 0)),
    (b"USING default\r\n", (Kind.USING, 0, 0)),
    (b"WATCHING 12\r\n", (Kind.WATCHING, 0, 0)),
    (b"TIMED_OUT\r\n", (Kind.OTHER, 0, 0)),
    (b"NOT_FOUND\r\n", (Kind.OTHER, 0, 0)),
    (b"INSERTED x\r\n", (Kind.OTHER, 0, 0)),
    (b"INSERTED 1 \r\n", (Kind.OTHER, 0, 0)),
    (b"RESERVED 7 \r\n", (Kind.OTHER, 0, 0)),
    (b"RESERVED 7 5x\r\n", (Kind.OTHER, 0, 0)),
    (b"\r\n", (Kind.OTHER, 0, 0)),
]


@pytest.mark.parametrize(("data", "reply"), CASES)
def test_reply_whole(data: bytes, reply: tuple[int, int, int]) -> None:
    assert ReplyReader().feed(data) == [reply]


@pytest.mark.parametrize(("data", "reply"), CASES)
def test_reply_byte_by_byte(data: bytes, reply: tuple[int, int, int]) -> None:
    reader = ReplyReader()
    assert [each for byte in data[:-1] for each in reader.feed(bytes([byte]))] == []
    assert reader.feed(data[-1:]) == [reply]


@pytest.mark.parametrize(("data", "reply"), CASES)
def test_reply_with_the_next_behind_it(data: bytes, reply: tuple[int, int, int]) -> None:
    reader = ReplyReader()
    assert reader.feed(data + b"INSER") == [reply]
    assert reader.feed(b"TED 3\r\n") == [(Kind.INSERTED, 3, 0)]


def test_all_replies_in_pieces_of_every_size() -> None:
    stream = b"".join(data for data, _ in CASES)
    for size in range(1, 64):
        reader = ReplyReader()
        replies = [each for at in range(0, len(stream), size) for each in reader.feed(stream[at : at + size])]
        assert replies == [reply for _, reply in CASES]


@pytest.mark.parametrize("data", [b"DELETED\n", b"RESERVED 1 2\r\nabX\n", b"RESERVED 1 2\r\nab\rX", b"x" * 513])
def test_malformed_reply_is_an_error(data: bytes) -> None:
    with pytest.raises(ReplyError):
        ReplyReader().feed(data)
    with pytest.raises(ReplyError):
        feed_byte_by_byte(data)


def feed_byte_by_byte(data: bytes) -> None:
    reader = ReplyReader()
    for byte in data:
        reader.feed(bytes([byte]))


@pytest.mark.parametrize("pieces", [[b"DEADLINE_SOON\r\n"], [b"DEADLINE", b"_SOON\r\n"]])
def test_line_of_another_reply_is_kept(pieces: list[bytes]) -> None:
    reader = ReplyReader()
    for piece in pieces:
        reader.feed(piece)
    assert reader.other_line() == b"DEADLINE_SOON"
