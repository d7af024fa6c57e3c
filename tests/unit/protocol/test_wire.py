"""The client's side of the wire: replies in any pieces, and commands that are checked before they are sent."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.errors import ArgumentError, UnexpectedReplyError
from beanpole.protocol import limits, wire
from beanpole.protocol.names import NAME_RULE
from beanpole.protocol.replies import WORDS, Word
from beanpole.protocol.wire import Call, Reply, ReplyReader

Seen = tuple[int, int, bytes | None]

REPLIES: list[tuple[bytes, Seen]] = [
    (b"INSERTED 1\r\n", (Word.INSERTED, 1, None)),
    (b"INSERTED 18446744073709551615\r\n", (Word.INSERTED, 2**64 - 1, None)),
    (b"BURIED\r\n", (Word.BURIED, 0, None)),
    (b"BURIED 7\r\n", (Word.BURIED, 7, None)),
    (b"KICKED\r\n", (Word.KICKED, 0, None)),
    (b"KICKED 0\r\n", (Word.KICKED, 0, None)),
    (b"RESERVED 3 0\r\n\r\n", (Word.RESERVED, 3, b"")),
    (b"RESERVED 3 6\r\na\r\nb\0c\r\n", (Word.RESERVED, 3, b"a\r\nb\0c")),
    (b"FOUND 4 2\r\n\r\n\r\n", (Word.FOUND, 4, b"\r\n")),
    (b"OK 4\r\n---\n\r\n", (Word.OK, 0, b"---\n")),
    (b"USING a.b\r\n", (Word.USING, 0, b"a.b")),
    (b"WATCHING 12\r\n", (Word.WATCHING, 12, None)),
    *((text + b"\r\n", (word, 0, None)) for text, word, form in WORDS if form == 0),
    (b"DELETED\r\n", (Word.DELETED, 0, None)),
    (b"DELETED 2\r\n", (Word.DELETED, 2, None)),
    (b"TOUCHED 0 1 18446744073709551615\r\n", (Word.TOUCHED, 0, b"1 18446744073709551615")),
    (b"EXISTS 4\r\n", (Word.EXISTS, 4, None)),
    (b"BAD_RULES 3 what is that\r\n", (Word.BAD_RULES, 3, b"what is that")),
    (
        b"DELETED 1" + b" 18446744073709551615" * 390 + b"\r\n",
        (Word.DELETED, 1, b" ".join([b"%d" % (2**64 - 1)] * 390)),
    ),
    (b"JOBS 0\r\n", (Word.JOBS, 0, None)),
    (b"JOBS 1\r\nJOB 5 3\r\na\r\n\r\n", (Word.JOBS, 1, None)),
    (b"JOBS 2 next=7\r\nJOB 5 0 tube=a x=\r\n\r\nJOB 7 5 key=JOBS\r\nJOB 1\r\n", (Word.JOBS, 2, None)),
]

WRONG = [
    b"\r\n",
    b"HELLO\r\n",
    b"deleted\r\n",
    b"DELETED\n",
    b"DELETED \r\n",
    b"DELETED 1 \r\n",
    b"DELETED 1 x\r\n",
    b"DELETED 1 2x\r\n",
    b"DELETED 1  2\r\n",
    b"TOUCHED x\r\n",
    b"TOUCHED 1 18446744073709551616\r\n",
    b"JOBS\r\n",
    b"JOBS x\r\n",
    b"JOBS 1x\r\n",
    b"JOBS 1001\r\n",
    b"JOBS 1\r\nDELETED\r\n",
    b"JOBS 1\r\nJOBS 0\r\n",
    b"JOBS 1\r\nJOB 1\r\n",
    b"JOBS 1\r\nJOB 1 x\r\n",
    b"JOBS 1\r\nJOB 1 2x\r\n",
    b"JOBS 1\r\nJOB 1 1073741825 a=b\r\n",
    b"JOBS 1\r\nJOB 1 1 a=b\r\nabc",
    b"JOB 1 0\r\n\r\n",
    b"JOBX 1 0\r\n\r\n",
    b"BAD_RULES x y\r\n",
    b"DELETEDX\r\n",
    b"INSERTED\r\n",
    b"INSERTED \r\n",
    b"INSERTED x\r\n",
    b"INSERTED -1\r\n",
    b"INSERTED  1\r\n",
    b"INSERTED 1 \r\n",
    b"INSERTED 18446744073709551616\r\n",
    b"RESERVED 1\r\n",
    b"RESERVED 1 \r\n",
    b"RESERVED 1 x\r\n",
    b"RESERVED x 1\r\n",
    b"RESERVED 1 1 1\r\n",
    b"RESERVED 1 1\r\nabc",
    b"RESERVED 1 1\r\na\r\r",
    b"RESERVED 1 1073741825\r\n",
    b"OK\r\n",
    b"OK x\r\n",
    b"USING\r\n",
    b"x" * limits.REPLY_LINE_BYTES_MAX,
]


def seen(reply: Reply) -> Seen:
    return (reply.word, reply.number, reply.body)


def read(pieces: list[bytes]) -> list[Seen]:
    reader = ReplyReader()
    found = []
    for piece in pieces:
        reader.receive(piece)
        while reply := reader.next_reply():
            found.append(seen(reply))
    assert reader.buffered_bytes == 0
    return found


@pytest.mark.parametrize(("text", "wanted"), REPLIES)
def test_reply_whole(text: bytes, wanted: Seen) -> None:
    assert read([text]) == [wanted]


@pytest.mark.parametrize(("text", "wanted"), REPLIES)
def test_reply_byte_by_byte(text: bytes, wanted: Seen) -> None:
    assert read([text[i : i + 1] for i in range(len(text))]) == [wanted]


@pytest.mark.parametrize(("text", "wanted"), REPLIES)
def test_reply_with_another_behind(text: bytes, wanted: Seen) -> None:
    assert read([text + b"TOUCHED\r\n"]) == [wanted, (Word.TOUCHED, 0, None)]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_no_reply_breaks_the_reader(text: bytes, whole: bool) -> None:
    reader = ReplyReader()

    def receive() -> None:
        for piece in [text] if whole else [text[i : i + 1] for i in range(len(text))]:
            reader.receive(piece)
            reader.next_reply()

    with pytest.raises(UnexpectedReplyError):
        receive()
    reader.receive(b"DELETED\r\n")
    with pytest.raises(UnexpectedReplyError, match="broken before"):
        reader.next_reply()


@given(st.lists(st.sampled_from(REPLIES), max_size=12), st.lists(st.integers(0, 400)))
def test_replies_in_arbitrary_pieces(replies: list[tuple[bytes, Seen]], cuts: list[int]) -> None:
    stream = b"".join(text for text, _ in replies)
    at = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    assert read([stream[a:b] for a, b in pairwise(at)]) == [wanted for _, wanted in replies]


@given(st.binary(max_size=200), st.integers(1, 200))
def test_arbitrary_bytes_never_crash(data: bytes, step: int) -> None:
    reader = ReplyReader()
    try:
        for at in range(0, len(data), step):
            reader.receive(data[at : at + step])
            while reader.next_reply():
                pass
    except UnexpectedReplyError:
        pass


@given(st.binary(max_size=3000), st.integers(1, 700))
def test_large_body_in_pieces(body: bytes, step: int) -> None:
    stream = b"RESERVED 9 %d\r\n%s\r\nDELETED\r\n" % (len(body), body)
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert read(pieces) == [(Word.RESERVED, 9, body), (Word.DELETED, 0, None)]


def test_read_into_stops_at_the_count() -> None:
    reader = ReplyReader()
    reader.receive(b"DELETED\r\nTOUCHED\r\nRELE")
    replies: list[Reply] = []
    assert reader.read_into(replies, 1)
    assert [reply.word for reply in replies] == [Word.DELETED]
    assert not reader.read_into(replies, 3)
    assert [reply.word for reply in replies] == [Word.DELETED, Word.TOUCHED]
    assert reader.buffered_bytes == 4


def test_jobs_have_their_fields_and_bodies() -> None:
    reader = ReplyReader()
    reader.receive(b"JOBS 2 next=7\r\nJOB 5 0\r\n\r\nJOB 7 6 tube=a key=JOB\r\nJOBS 1\r\nDELETED\r\n")
    reply = reader.next_reply()
    assert reply is not None
    assert (reply.word, reply.number, reply.fields) == (Word.JOBS, 2, b"next=7")
    assert [(each.word, each.number, each.fields, each.body) for each in reply.frames] == [
        (Word.JOB, 5, None, b""),
        (Word.JOB, 7, b"tube=a key=JOB", b"JOBS 1"),
    ]
    assert read([b"DELETED\r\n"]) == [(Word.DELETED, 0, None)]


def test_a_reply_is_there_when_its_last_job_is() -> None:
    reader = ReplyReader()
    replies: list[Reply] = []
    for piece in (b"JOBS 2\r\n", b"JOB 5 1\r\n", b"x\r\nJOB 6 1", b"\r\ny\r"):
        reader.receive(piece)
        assert not reader.read_into(replies, 1)
    reader.receive(b"\n")
    assert reader.read_into(replies, 1)
    assert [(each.number, each.body) for each in replies[0].frames] == [(5, b"x"), (6, b"y")]


# --- Commands ---------------------------------------------------------------------------------------------------------


def test_commands_as_they_go_over_the_wire() -> None:
    assert wire.put(b"a\r\nb", 1, 2, 3) == b"put 1 2 3 4\r\na\r\nb\r\n"
    assert wire.puts([b"", b"x"], 2**32 - 1, 0, 0) == b"put 4294967295 0 0 0\r\n\r\nput 4294967295 0 0 1\r\nx\r\n"
    assert wire.puts([], 0, 0, 0) == b""
    assert wire.command(b"delete", 2**64 - 1) == b"delete 18446744073709551615\r\n"
    assert wire.with_ids(b"delete", [1, 2]) == b"delete 1\r\ndelete 2\r\n"
    assert wire.command(b"release", 1, 2, 3) == b"release 1 2 3\r\n"
    assert wire.command(b"bury", 1, 2) == b"bury 1 2\r\n"
    assert wire.reserve(None) == b"reserve\r\n"
    assert wire.reserve(2**31 - 1) == b"reserve-with-timeout 2147483647\r\n"
    assert wire.command(b"kick", 10) == b"kick 10\r\n"
    assert wire.command(b"use", "a.b-c/(d)_$;+") == b"use a.b-c/(d)_$;+\r\n"
    assert wire.command(b"pause-tube", "a", 5) == b"pause-tube a 5\r\n"


def test_a_number_is_written_with_all_its_digits() -> None:
    for power in range(20):
        for number in (10**power - 1, 10**power, 10**power + 1, 5 * 10**power % 2**64):
            assert wire.command(b"delete", number) == b"delete %d\r\n" % number


@pytest.mark.parametrize(
    "encode",
    [
        lambda: wire.put(b"", -1, 0, 1),
        lambda: wire.put(b"", 2**32, 0, 1),
        lambda: wire.put(b"", 0, 2**32, 1),
        lambda: wire.put(b"", 0, 0, 2**32),
        lambda: wire.puts([b""], 0, 1.5, 1),  # type: ignore[arg-type]
        lambda: wire.command(b"delete", 2**64),
        lambda: wire.command(b"delete", -1),
        lambda: wire.command(b"delete", "1"),
        lambda: wire.reserve(2**31),
        lambda: wire.reserve(0.5),  # type: ignore[arg-type]
        lambda: wire.command(b"release", 1, 2**32, 0),
        lambda: wire.command(b"bury", 1, -1),
        lambda: wire.command(b"kick", 2**32),
        lambda: wire.command(b"pause-tube", "a", -1),
    ],
)
def test_numbers_out_of_range_are_told_before_anything_is_sent(encode: Callable[[], bytes]) -> None:
    with pytest.raises(ArgumentError):
        encode()


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\r\n", "grün", "a:b", "a\0", "x" * 201, b"bytes", None])
def test_what_is_no_name_of_a_tube(name: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(NAME_RULE)):
        wire.command(b"use", name)


def test_name_of_200_bytes() -> None:
    assert wire.tube_name("x" * 200) == b"x" * 200


def test_body_that_is_no_bytes() -> None:
    with pytest.raises(TypeError, match="a body is bytes here, not str"):
        wire.put("text", 0, 0, 0)  # type: ignore[arg-type]


def test_call_has_its_defaults() -> None:
    call: Call[None] = Call(b"x", Word.OK)
    assert (call.data, call.expected, call.take, call.tube, call.uses, call.wait_s) == (
        b"x",
        Word.OK,
        None,
        None,
        None,
        0,
    )
