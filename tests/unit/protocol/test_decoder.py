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
from beanpole.protocol.extensions import ACCESS_FORMATS, EXTENSIONS, FORMAT_NEWEST, KIND_NAMES, Kind

BODY_BYTES_MAX = 10
"""The limit of the decoders here: small, so that bodies above it are short."""

SIZES = {Kind.BYTES, Kind.TEXT_BYTES, Kind.RULES_BYTES, Kind.DOCUMENT_BYTES}
"""The words behind which a body follows."""

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
    (b"peek 00000000000018446744073709551609\r\n", ["<PEEK id=18446744073709551609>"]),
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
    # Extensions: looked for where the old commands fail, with options and longer lines.
    (b"list-extensions\r\ncancel-reserve\r\n", ["<LIST_EXTENSIONS>", "<CANCEL_RESERVE>"]),
    (b"list-extensions \r\nlist-extensions x\r\n", ["<BAD_FORMAT>"] * 2),
    (b"list-extensionsx\r\nx\r\n", ["<UNKNOWN_COMMAND>"] * 2),
    (b"reserve-many 3 0.5\r\n", ["<RESERVE_MANY count=3 timeout=500000000>"]),
    (b"reserve-many 1000 2147483647.000\r\n", ["<RESERVE_MANY count=1000 timeout=2147483647000000000>"]),
    (b"reserve-many 1000 2147483647.001\r\n", ["<BAD_FORMAT>"]),
    (b"reserve-many 0 1\r\n", ["<RESERVE_MANY count=0 timeout=1000000000>"]),
    (b"reserve-many 1001 1\r\nreserve-many  1 1\r\nreserve-many 1 1 \r\n", ["<BAD_FORMAT>"] * 3),
    (b"reserve-many 0 1 group=same\r\nreserve-many -0 1\r\nreserve-many 0\r\n", ["<BAD_FORMAT>"] * 3),
    (b"reserve-many 1 1 1\r\nreserve-many 1\r\nreserve-many 1 x=1\r\n", ["<BAD_FORMAT>"] * 3),
    (b"reserve-many 1 .5\r\nreserve-many 1 5.\r\nreserve-many 1 1.2345\r\n", ["<BAD_FORMAT>"] * 3),
    (b"delete-many 1\r\ntouch-many 1 18446744073709551615 1\r\n", [
        "<DELETE_MANY ids=b'1'>", "<TOUCH_MANY ids=b'1 18446744073709551615 1'>"
    ]),
    (b"delete-many\r\ndelete-many \r\ndelete-many 1 \r\n", ["<BAD_FORMAT>"] * 3),
    (b"delete-many 1  2\r\ndelete-many 1\t2\r\n", ["<BAD_FORMAT>"] * 2),
    (b"delete-many 18446744073709551616\r\ndelete-many 1\0\r\ndelete-many +1\r\n", ["<BAD_FORMAT>"] * 3),
    (b"delete-many " + b"1 " * 105 + b"1\r\n", [f"<DELETE_MANY ids=b'{'1 ' * 105}1'>"]),
    (b"delete-many " + b"1 " * 4088 + b"1\r\nstats\r\n", [f"<DELETE_MANY ids=b'{'1 ' * 4088}1'>", "<STATS>"]),
    (b"delete-many " + b"1 " * 4088 + b"12\r\nstats\r\n", [f"<DELETE_MANY ids=b'{'1 ' * 4088}12'>", "<STATS>"]),
    (b"delete-many " + b"1 " * 4088 + b"123\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"delete-many " + b"1 " * 9000 + b"1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"delete-manyx " + b"1 " * 300 + b"1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    # Extensions with a body: no byte of it is a command, whatever is wrong.
    (b"put-job 4\r\nbody\r\nput-job 0\r\n\r\n", ["<PUT_JOB body=b'body'>", "<PUT_JOB body=b''>"]),
    (b"put-job 10 ttr=0 delay=0.25 tube=t pri=1\r\n0123456789\r\n", [
        "<PUT_JOB tube=b't' pri=1 delay=250000000 ttr=1 body=b'0123456789'>"
    ]),
    (b"change-body 7 2\r\nab\r\n", ["<CHANGE_BODY id=7 body=b'ab'>"]),
    (b"fail-job 7 12 dead=now\r\n012345678901\r\n", ["<FAIL_JOB id=7 dead='now' body=b'012345678901'>"]),
    (b"fail-job 7 1025\r\n" + b"x" * 1025 + b"\r\nstats\r\n", ["<JOB_TOO_BIG>", "<STATS>"]),
    (b"put-job 1 once=" + b"t" * 64 + b" for=86400\r\nx\r\nput-job 0 for=1 once=\xff\r\n\r\n", [
        "<PUT_JOB once=b'" + "t" * 64 + "' for=86400 body=b'x'>", "<PUT_JOB once=b'\\xff' for=1 body=b''>"
    ]),
    (b"put-job 8 once=" + b"t" * 65 + b"\r\ndelete 1\r\nput-job 8 once=\r\ndelete 1\r\nstats\r\n",
     ["<BAD_FORMAT>", "<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8 once=a for=0\r\ndelete 1\r\nput-job 8 once=a for=86401\r\ndelete 1\r\nstats\r\n",
     ["<BAD_FORMAT>", "<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8 x=1\r\ndelete 1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8 pri=1 pri=1\r\ndelete 1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8  pri=1\r\ndelete 1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8 tube=\0\r\ndelete 1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8 tube=" + b"t" * 300 + b"\r\ndelete 1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 8 tube=" + b"t" * 9000 + b"\r\ndelete 1\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
    (b"put-job 11\r\ndelete\r\n123\r\nstats\r\n", ["<JOB_TOO_BIG>", "<STATS>"]),
    (b"put-job 11 x=1\r\n01234567890\r\nstats\r\n", ["<JOB_TOO_BIG>", "<STATS>"]),
    (b"put-job 1\r\nxyz\r\nstats\r\n", ["<EXPECTED_CRLF>", "<UNKNOWN_COMMAND>", "<STATS>"]),
    (b"put-job 4294967296\r\nput-job\r\nput-job -1\r\nchange-body 1\r\n", ["<BAD_FORMAT>"] * 4),
    (b"put-jobs 8\r\nstats\r\n", ["<UNKNOWN_COMMAND>", "<STATS>"]),
    (b"delete-many 1\r" + b"\r" * 300 + b"\r\nstats\r\n", ["<BAD_FORMAT>", "<STATS>"]),
]  # fmt: skip


def shown(decoder: Decoder) -> list[str]:
    """The complete commands. That a bad format counts as another verb in statistics is left out."""
    commands = []
    while command := decoder.next_command():
        commands.append("<BAD_FORMAT>" if command.verb == Verb.BAD_FORMAT else repr(command))
    return commands


def decoded(pieces: list[bytes], body_bytes_max: int = BODY_BYTES_MAX) -> list[str]:
    """The commands in some pieces of input. Between pieces, memory is bounded by a body and a read."""
    decoder = Decoder(body_bytes_max, FORMAT_NEWEST | sum(ACCESS_FORMATS.values()))
    commands = []
    for piece in pieces:
        decoder.receive(piece)
        commands += shown(decoder)
        held = body_bytes_max + 2 + limits.EXTENSION_LINE_BYTES_MAX + len(piece)
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


def name(text: bytes) -> str:
    """The name of an extension's verb."""
    return text.decode().upper().replace("-", "_")


GOOD: dict[Kind, tuple[bytes, ...]] = {
    Kind.BYTES: (b"2",),
    Kind.TEXT_BYTES: (b"2",),
    Kind.RULES_BYTES: (b"2",),
    Kind.DOCUMENT_BYTES: (b"2",),
    Kind.SCHEDULE: (b"s", b"s" * 200),
    Kind.SWITCH: (b"on", b"off"),
    Kind.AFTER_SCHEDULE: (b"s",),
    Kind.IDS: (b"1", b"1 2 3"),
    Kind.PATTERN: (b"t", b"t-*", b"*"),
    Kind.STATE: (b"ready", b"reserved", b"delayed", b"buried"),
    Kind.RESTING_STATE: (b"ready", b"delayed", b"buried"),
    Kind.RESTING_STATES: (b"ready", b"buried delayed ready"),
    Kind.COUNT: (b"1", b"1000", b"0"),
    Kind.LIMIT: (b"1", b"1000"),
    Kind.TAKEN: (b"keep", b"replace"),
    Kind.UNTIL: (b"delete", b"reserve"),
    Kind.DEAD: (b"now",),
    Kind.ORDER: (b"next",),
    Kind.FIELDS: (b"left", b"session,peer,left,reason", b"reason,session"),
    Kind.AFTER_PATTERN: (b"t", b"t*", b"*"),
    Kind.KEY: (b"k", b"k" * 200, b"\xff=\x21", b"*"),
    Kind.NAME: (
        b"n",
        b"n" * 200,
        b"a=b  c ",
        b"\xc2\xa0\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf",
        b"\xf0\x90\x80\x80" * 50,
    ),
    Kind.TUBE: (b"t", b"t" * 200),
    Kind.TO: (b"t",),
    Kind.AFTER_TUBE: (b"t",),
    Kind.TIMEOUT: (b"0", b"0.001", b"2147483647"),
    Kind.SECONDS: (b"0", b"4294967295.999"),
    Kind.DELAY: (b"0", b"0.5"),
    Kind.AT: (b"0", b"1800000000.125", b"8589934591.999"),
    Kind.WITHIN: (b"0", b"0.5", b"4294967295.999"),
    Kind.EXPIRE: (b"1", b"0.5"),
    Kind.GROUP: (b"g", b"g" * 200, b"\xff=\x21"),
    Kind.META: (b"a:", b"a:b:c,d=e:%2C%aF", b"a:," * 15 + b"a:", b"a:" + b"b" * 1022),
    Kind.KEEP: (b"0", b"600"),
    Kind.TOKEN: (b"0123456789abcdef" * 2,),
    Kind.ENDS: (b"all",),
    Kind.SAME: (b"same",),
    Kind.GROUP_ORDER: (b"held", b"ready"),
}
"""Values that each kind of argument can have; those that are missing are numbers."""

BAD: dict[Kind, tuple[bytes, ...]] = {
    Kind.FIELDS: (b"name", b"left,", b",left", b"left,left", b"LEFT", b"lef", b"left reason"),
    Kind.PATTERN: (b"**", b"-*", b"t*t", b"t" * 201 + b"*"),
    Kind.STATE: (b"ready,", b"READY", b"r"),
    Kind.RESTING_STATE: (b"reserved",),
    Kind.RESTING_STATES: (b"reserved", b"ready ready", b"ready  buried", b"ready "),
    Kind.COUNT: (b"1001",),
    Kind.LIMIT: (b"0", b"1001"),
    Kind.GROUP: (b"g" * 201, b"\x1f", b"a\tb"),
    Kind.META: (
        *(b"a", b":b", b"a:,", b"a:b,", b",a:b", b"a:b,c", b"a:%4", b"a:%4g", b"%:", b"a:\xff", b"a:\x7f"),
        *(b"a:," * 16 + b"a:", b"a:" + b"b" * 1023),
    ),
    Kind.KEEP: (b"601", b"1.5", b"-1"),
    Kind.TOKEN: (b"a" * 31, b"a" * 33, b"A" * 32, b"g" * 32),
    Kind.TAKEN: (b"kee", b"keepx"),
    Kind.SAME: (b"sam", b"samex"),
    Kind.GROUP_ORDER: (b"next", b"hel"),
    Kind.KEY: (b"k" * 201, b"\x1f", b"\x7f", b"a\tb"),
    Kind.NAME: (
        *(
            b"n" * 201,
            b" n",
            b"a\tb",
            b"a\rb",
            b"\x7f",
            b"\x80",
            b"\xc1\xbf",
            b"\xc2\x9f",
            b"\xc3",
            b"\xc3(",
            b"\xe0\x9f\xbf",
        ),
        *(
            b"\xe2\x82",
            b"\xe2(\x82",
            b"\xe2\x82(",
            b"\xed\xa0\x80",
            b"\xf0\x8f\xbf\xbf",
            b"\xf0\x9f\x90",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
        ),
    ),
    Kind.SCHEDULE: (b"s" * 201, b"-s", b"s*"),
    Kind.SWITCH: (b"o", b"ON", b"onx"),
    Kind.TUBE: (b"t" * 201, b"-t", b"t*", b"\xc3\xa9"),
    Kind.TIMEOUT: (b"2147483648", b"2147483647.001"),
    Kind.DELAY: (b"1.", b".5", b"1.2345", b"1e3", b"4294967296"),
    Kind.AT: (b"1.", b"1.2345", b"-1", b"8589934592", b"18446744073709551616", b"now"),
    Kind.WITHIN: (b"1.2345", b"-1", b"4294967296"),
}
"""Values that they can't have, beside those that no kind has."""

BAD_FOR_ALL = (b"", b" ", b"\0")


def line_of(row: tuple[bytes, tuple[Kind, ...], tuple[Kind, ...]], rest: bytes = b"", **changed: bytes) -> bytes:
    """A command of an extension with its body; `changed` holds other words by their place, as w0."""
    text, words, _ = row
    values = [changed.get(f"w{i}", GOOD.get(kind, (b"7",))[0]) for i, kind in enumerate(words)]
    return b" ".join([text, *values]) + rest + b"\r\n" + (b"us\r\n" if SIZES & set(words) else b"")


def verbs(data: bytes) -> list[str]:
    """The names of the commands in some input, which must be the same in one piece and byte by byte."""
    whole = decoded([data])
    assert decoded(bytewise(data)) == whole
    return [text.split(" ")[0].strip("<>") for text in whole]


@pytest.mark.parametrize("row", EXTENSIONS, ids=lambda row: row[0].decode())
def test_every_argument_of_every_extension(row: tuple[bytes, tuple[Kind, ...], tuple[Kind, ...]]) -> None:
    text, words, options = row
    right, wrong = [name(text), "STATS"], ["BAD_FORMAT", "STATS"]
    assert verbs(line_of(row) + b"stats\r\n") == right
    for i, kind in enumerate(words):
        for value in GOOD.get(kind, (b"7",)):
            assert verbs(line_of(row, **{f"w{i}": value}) + b"stats\r\n") == right, value
        # A space more, and the size stands elsewhere: that closes the connection.
        bad = [value for value in (*BAD.get(kind, ()), *BAD_FOR_ALL) if b" " not in value or not SIZES & set(words)]
        for value in () if kind in SIZES else bad:
            assert verbs(line_of(row, **{f"w{i}": value}) + b"stats\r\n") == wrong, value
    for kind in options:
        start = b" " + KIND_NAMES[kind] + b"="
        for value in GOOD.get(kind, (b"7",)):
            assert verbs(line_of(row, start + value) + b"stats\r\n") == right, start + value
            assert verbs(line_of(row, start + value + start + value) + b"stats\r\n") == wrong, "doubled"
        for value in (*BAD.get(kind, ()), *BAD_FOR_ALL):
            assert verbs(line_of(row, start + value) + b"stats\r\n") == wrong, start + value
    rests = [] if Kind.NAME in words else [b" unknown=1", b" ", b" =", b" x"]  # which may have all of these in it
    assert [verbs(line_of(row, rest) + b"stats\r\n") for rest in rests] == [wrong] * len(rests)


def test_a_size_that_cannot_be_read_closes() -> None:
    for line in (b"put-job x", b"put-job", b"put-job 1\0", b"put-job  1", b"change-body 1", b"put-job " + b"9" * 9000):
        decoder = Decoder(BODY_BYTES_MAX)
        decoder.receive(line + b"\r\n")
        command = decoder.next_command()
        assert command is not None
        assert (command.verb, command.closes) == (Verb.BAD_FORMAT, True), line[:20]


def test_a_body_of_an_extension_that_does_not_end_closes() -> None:
    decoder = Decoder(BODY_BYTES_MAX)
    decoder.receive(b"put-job 1\r\nxyz\r\nput 0 0 0 1\r\nxyz\r\nput-job 1 x=1\r\nx\r\nstats \r\n")
    closing = []
    while command := decoder.next_command():
        closing.append((command.verb, command.closes))
    assert closing == [
        (Verb.EXPECTED_CRLF, True),
        (Verb.UNKNOWN_COMMAND, False),
        (Verb.EXPECTED_CRLF, False),
        (Verb.UNKNOWN_COMMAND, False),
        (Verb.BAD_FORMAT, False),
        (Verb.BAD_FORMAT, False),
    ]


@pytest.mark.parametrize("line", [b"put-job 4 x=1", b"put-job 4 tube=-", b"put-job %d" % (BODY_BYTES_MAX + 1)])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 99999])
def test_a_refused_body_that_does_not_end_closes(line: bytes, step: int) -> None:
    size = int(line.split(b" ")[1])
    for end, closes in ((b"\r\n", False), (b"\r\r", True), (b"\n\n", True), (b"xy", True), (b"y\n", True)):
        data = line + b"\r\n" + b"\r" * size + end
        decoder = Decoder(BODY_BYTES_MAX)
        found = []
        for at in range(0, len(data), step):
            decoder.receive(data[at : at + step])
            while command := decoder.next_command():
                found.append((command.verb in {Verb.BAD_FORMAT, Verb.JOB_TOO_BIG}, command.closes))
        assert found == [(True, closes)], end


def test_a_server_without_extensions_takes_them_for_mistakes() -> None:
    decoder = Decoder(BODY_BYTES_MAX, extensions=False)
    decoder.receive(
        b"list-extensions\r\nput-job 7\r\nuse abc\r\nreserve-many 1 0\r\ndelete-many " + b"1 " * 200 + b"1\r\n"
    )
    assert shown(decoder) == [
        *["<UNKNOWN_COMMAND>"] * 2,
        "<USE tube=b'abc'>",
        *["<BAD_FORMAT>"] * 2,
    ]


# Words of the protocol, so that chance comes upon more than unknown commands.
words = st.sampled_from(
    [text for text, *_ in COMMANDS]
    + [text for text, *_ in EXTENSIONS]
    + [
        b" pri=1",
        b" tube=t",
        b" delay=0.5",
        b" ",
        b"0",
        b"1",
        b"7",
        b"12",
        b"t",
        b"x",
        b"-",
        b"\r\n",
        b"\r\n",
        b"\r",
        b"\n",
    ]
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
