"""The decoder: every case whole, byte by byte, and with trailing bytes; then whatever bytes arrive in whatever pieces.

Cases show commands as `repr` does. The scripts say what is answered; here it is about what is understood.
"""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beanpole.protocol import limits
from beanpole.protocol.commands import COMMANDS, Verb
from beanpole.protocol.decoder import Decoder

BODY_BYTES_MAX = 10
"""The limit of the decoders here: small, so that bodies above it are short."""

CASES: list[tuple[bytes, list[str]]] = [
    # Verbs and their arguments.
    (b"put 1 2 3 4\r\nbody\r\n", ["<PUT pri=1 delay_ns=2000000000 ttr_s=3 body=b'body'>"]),
    (b"put 0 0 1 0\r\n\r\n", ["<PUT pri=0 delay_ns=0 ttr_s=1 body=b''>"]),
    (b"put 0 0 1 4\r\n\r\n\r\n\r\n", [r"<PUT pri=0 delay_ns=0 ttr_s=1 body=b'\r\n\r\n'>"]),
    (b"put 4294967295 4294967295 4294967295 1\r\nx\r\n", [
        "<PUT pri=4294967295 delay_ns=4294967295000000000 ttr_s=4294967295 body=b'x'>"
    ]),
    (b"put 0 0 1 10\r\n0123456789\r\n", ["<PUT pri=0 delay_ns=0 ttr_s=1 body=b'0123456789'>"]),
    (b"peek 18446744073709551615\r\n", ["<PEEK id=18446744073709551615>"]),
    (b"peek-ready\r\npeek-delayed\r\npeek-buried\r\n", ["<PEEK_READY>", "<PEEK_DELAYED>", "<PEEK_BURIED>"]),
    (b"reserve\r\nreserve-with-timeout 2147483647\r\n", ["<RESERVE>", "<RESERVE_WITH_TIMEOUT timeout_s=2147483647>"]),
    (b"reserve-job 1\r\n", ["<RESERVE_JOB id=1>"]),
    (b"delete 1\r\ntouch 2\r\nkick-job 3\r\n", ["<DELETE id=1>", "<TOUCH id=2>", "<KICK_JOB id=3>"]),
    (b"release 1 2 3\r\nbury 4 5\r\n", ["<RELEASE id=1 pri=2 delay_ns=3000000000>", "<BURY id=4 pri=5>"]),
    (b"kick 7\r\n", ["<KICK bound=7>"]),
    (b"stats\r\nstats-job 1\r\nstats-tube t\r\n", ["<STATS>", "<STATS_JOB id=1>", "<STATS_TUBE tube=b't'>"]),
    (b"use a\r\nwatch b\r\nignore c\r\n", ["<USE tube=b'a'>", "<WATCH tube=b'b'>", "<IGNORE tube=b'c'>"]),
    (b"list-tubes\r\nlist-tube-used\r\n", ["<LIST_TUBES>", "<LIST_TUBE_USED>"]),
    (b"list-tubes-watched\r\n", ["<LIST_TUBES_WATCHED>"]),
    (b"pause-tube t 5\r\n", ["<PAUSE_TUBE tube=b't' delay_ns=5000000000>"]),
    (b"quit\r\nquitfoo bar\r\n", ["<QUIT>", "<QUIT>"]),
    # Lines.
    (b"\r\n", ["<UNKNOWN_COMMAND>"]),
    (b"PUT 0 0 1 1\r\n stats\r\n", ["<UNKNOWN_COMMAND>", "<UNKNOWN_COMMAND>"]),
    (b"stats\n\r\n", ["<BAD_FORMAT>"]),
    (b"a\rb\r\n", ["<UNKNOWN_COMMAND>"]),
    (b"\r\r\n", ["<UNKNOWN_COMMAND>"]),
    (b"use a\r\r\n", ["<BAD_FORMAT>"]),
    (b"\0\r\nuse a\0\r\n", ["<BAD_FORMAT>", "<BAD_FORMAT>"]),
    (b"peek " + b" " * 216 + b"1\r\n", ["<PEEK id=1>"]),
    (b"peek " + b" " * 217 + b"1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"x" * 447 + b"\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"x" * 1000 + b"\r\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    # Prefixes: the first verb that matches decides.
    (b"put\r\npeek\r\nuse\r\n", ["<UNKNOWN_COMMAND>"] * 3),
    (b"put \r\npeek \r\nuse \r\n", ["<BAD_FORMAT>"] * 3),
    (b"reserve-job\r\nreserve-with-timeout\r\nstats-job\r\nlist-tubesx\r\n", ["<BAD_FORMAT>"] * 4),
    (b"list-tube\r\npeek-foo\r\nkick-jobs 1\r\n", ["<UNKNOWN_COMMAND>"] * 3),
    (b"pause-tubet   5\r\n", ["<PAUSE_TUBE tube=b't' delay_ns=5000000000>"]),
    (b"reserve \r\nstats \r\ndelete 1 \r\nbury 1 1 1\r\n", ["<BAD_FORMAT>"] * 4),
    # Numbers.
    (b"peek   010\r\n", ["<PEEK id=10>"]),
    (b"peek \t1\r\npeek +1\r\npeek -1\r\npeek 0x1\r\npeek 1e3\r\n", ["<BAD_FORMAT>"] * 5),
    (b"peek 18446744073709551616\r\nput 4294967296 0 1 1\r\n", ["<BAD_FORMAT>"] * 2),
    (b"reserve-with-timeout 0foo\r\n", ["<RESERVE_WITH_TIMEOUT timeout_s=0>"]),
    (b"reserve-with-timeout 2147483648\r\nreserve-with-timeout +0\r\n", ["<BAD_FORMAT>"] * 2),
    (b"kick \t+1x\r\nkick -1\r\n", ["<KICK bound=1>", "<KICK bound=4294967295>"]),
    (b"kick 4294967297\r\nkick 18446744073709551616\r\n", ["<KICK bound=1>", "<BAD_FORMAT>"]),
    # Tube names.
    (b"use " + b"t" * 200 + b"\r\n", [f"<USE tube=b'{'t' * 200}'>"]),
    (b"use " + b"t" * 201 + b"\r\nuse -t\r\nuse a:b\r\nuse  t\r\nuse t \r\nuse \xc3\xa9\r\n", ["<BAD_FORMAT>"] * 6),
    # Bodies that are not what the line says.
    (b"put 0 0 1 1\r\nxyz\r\n", ["<EXPECTED_CRLF>", "<UNKNOWN_COMMAND>"]),
    (b"put 0 0 1 1\r\nx\n\nstats\r\n", ["<EXPECTED_CRLF>", "<STATS>"]),
    (b"put 0 0 1 11\r\n01234567890\r\nstats\r\n", ["<JOB_TOO_BIG>", "<STATS>"]),
    (b"put 0 0 1 12 x\r\nstats\r\nstats\r\nstats\r\n", ["<JOB_TOO_BIG>", "<STATS>"]),
    (b"put 0 0 1 1 x\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
]  # fmt: skip


def shown(decoder: Decoder) -> list[str]:
    """The complete commands. That a bad format counts as another verb in statistics is left out."""
    commands = []
    while command := decoder.next_command():
        commands.append("<BAD_FORMAT>" if command.verb == Verb.BAD_FORMAT else repr(command))
    return commands


def decoded(pieces: list[bytes], body_bytes_max: int = BODY_BYTES_MAX) -> list[str]:
    """The commands in some pieces of input. Between pieces, memory is bounded by a body and a read."""
    decoder = Decoder(body_bytes_max)
    commands = []
    for piece in pieces:
        decoder.receive(piece)
        commands += shown(decoder)
        held = body_bytes_max + 2 + limits.LINE_BYTES_MAX + len(piece)
        assert decoder.buffered_bytes <= 2 * max(held, limits.INPUT_BYTES_KEPT)
    return commands


def bytewise(data: bytes) -> list[bytes]:
    """Data in pieces of one byte."""
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize(("data", "commands"), CASES)
def test_decode_whole(data: bytes, commands: list[str]) -> None:
    assert decoded([data]) == commands


@pytest.mark.parametrize(("data", "commands"), CASES)
def test_decode_byte_by_byte(data: bytes, commands: list[str]) -> None:
    assert decoded(bytewise(data)) == commands


@pytest.mark.parametrize(("data", "commands"), CASES)
def test_decode_with_trailing_bytes(data: bytes, commands: list[str]) -> None:
    decoder = Decoder(BODY_BYTES_MAX)
    decoder.receive(data + b"use trailing")
    assert shown(decoder) == commands
    decoder.receive(b"\r\n")
    assert shown(decoder) == ["<USE tube=b'trailing'>"]


@pytest.mark.parametrize(("data", "commands"), CASES)
def test_decode_twice_without_reading(data: bytes, commands: list[str]) -> None:
    decoder = Decoder(BODY_BYTES_MAX)
    decoder.receive(data)
    decoder.receive(data)
    assert shown(decoder) == commands * 2


def test_every_verb_has_a_case() -> None:
    named = {text.split(" ")[0].strip("<>") for _, commands in CASES for text in commands}
    assert {verb.name for _, verb, *_ in COMMANDS} - named == set()


# Words of the protocol, so that chance comes upon more than unknown commands.
words = st.sampled_from(
    [text for text, *_ in COMMANDS] + [b" ", b"0", b"1", b"7", b"12", b"t", b"x", b"-", b"\r\n", b"\r\n", b"\r", b"\n"]
)
puts = st.builds(
    lambda size, body, end: b"put 0 0 1 %d\r\n%b%b" % (size, body, end),
    st.integers(0, 14),
    st.binary(max_size=14),
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b""]),
)
streams = st.lists(st.one_of(words, words, puts, st.binary(max_size=6), st.just(b"y" * 223)), max_size=30).map(b"".join)


@settings(max_examples=300)
@given(data=streams, cuts=st.lists(st.integers(0, 400), max_size=12))
@example(data=b"put 0 0 1 1\r\nx\r\n", cuts=[12, 13, 14, 15])
def test_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
    pieces = [data[begin:end] for begin, end in pairwise(ends) if begin < end]
    whole = decoded([data] if data else [])
    assert decoded(pieces) == whole
    assert decoded(bytewise(data)) == whole


@settings(max_examples=300)
@given(data=st.binary(max_size=2000))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    assert decoded([data] if data else []) == decoded(bytewise(data))


def test_memory_of_a_line_without_end_is_bounded() -> None:
    decoder = Decoder()
    for _ in range(1000):
        decoder.receive(b"x" * 1000)
        assert decoder.next_command() is None
        assert decoder.buffered_bytes <= 2 * limits.INPUT_BYTES_KEPT
    decoder.receive(b"\r\nstats\r\n")
    assert shown(decoder) == ["<BAD_FORMAT>", "<STATS>"]


def test_memory_of_a_body_that_is_too_big_is_bounded() -> None:
    decoder = Decoder(BODY_BYTES_MAX)
    decoder.receive(b"put 0 0 1 1000000\r\n")
    for _ in range(1000):
        decoder.receive(b"x" * 1000)
        assert decoder.next_command() is None
        assert decoder.buffered_bytes <= 2 * limits.INPUT_BYTES_KEPT
    decoder.receive(b"\r\nstats\r\n")
    assert shown(decoder) == ["<JOB_TOO_BIG>", "<STATS>"]


def test_memory_is_given_back_when_all_is_decoded() -> None:
    decoder = Decoder(1_000_000)
    decoder.receive(b"put 0 0 1 1000000\r\n" + b"x" * 500_000)
    assert decoder.next_command() is None
    assert decoder.buffered_bytes >= 500_000
    decoder.receive(b"x" * 500_000 + b"\r\n")
    command = decoder.next_command()
    assert command is not None
    assert command.body == b"x" * 1_000_000
    assert decoder.next_command() is None
    assert decoder.buffered_bytes <= limits.INPUT_BYTES_KEPT


def test_bad_format_that_counts_in_statistics() -> None:
    """A put with garbage behind it, and a pause-tube of a bad name with a good number, count as themselves."""
    decoder = Decoder(BODY_BYTES_MAX)
    decoder.receive(b"put 0 0 1 1 x\r\npause-tube -x 1\r\nput x\r\npause-tube t x\r\n")
    counted = []
    while command := decoder.next_command():
        assert command.verb == Verb.BAD_FORMAT
        counted.append(command.counted)
    assert counted[:2] == [Verb.PUT, Verb.PAUSE_TUBE]
    assert counted[2:] == [Verb.NONE, Verb.NONE]
