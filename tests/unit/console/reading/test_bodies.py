"""Bodies as people read them."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.console import limits
from beanpole.console.reading.bodies import (
    BODY_TEXT_CHARS,
    HEX_BYTES,
    JSON_LEVELS,
    KINDS,
    Shown,
    depth_of,
    preview,
    shown,
    visible,
)

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


def seen(body: bytes, kind: str = "") -> Shown:
    return shown(body, len(body), kind)


def test_json_has_a_line_for_each_value() -> None:
    body = b'{"a":[1,2.50,{"b":null}],"c":{},"d":[],"e":"x, y: {z}","f":true}'
    assert seen(body).kind == "json"
    assert seen(body).text == (
        '{\n  "a": [\n    1,\n    2.50,\n    {\n      "b": null\n    }\n  ],\n  "c": {},\n  "d": [],\n'
        '  "e": "x, y: {z}",\n  "f": true\n}'
    )
    assert seen(body, "text").text == body.decode()
    assert seen(body).kinds == KINDS


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_pretty_json_means_the_same(value: object) -> None:
    for ensure_ascii in (False, True):
        body = json.dumps([value], ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")
        found = seen(body)
        if found.kind == "json" and visible(text := body.decode()) == text:
            assert json.loads(found.text) == [value]


def test_json_is_shown_as_it_is_written() -> None:
    """Numbers that no float holds, keys that come twice, escapes: what a worker gets, not what Python makes of it."""
    body = b'{"n":1e999999,"big":' + b"9" * 5_000 + b',"a":1,"a":2,"e":"\\u202e\\ud800\\u0000","-":-0.0}'
    text = seen(body).text
    for part in ('"n": 1e999999', "9" * 5_000, '"a": 1', '"a": 2', '"\\u202e\\ud800\\u0000"', "-0.0"):
        assert part in text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"12",
        b"true",
        b"[",
        b"[1,]",
        b"{1:2}",
        b'{"a":1',
        b"[NaN]",
        b"[Infinity]",
        b'["\x01"]',
        b"[}",
        b"[1] x",
        b'"',
        b"][" * 99,
    ],
)
def test_what_is_no_json_is_text(body: bytes) -> None:
    assert seen(body, "json").kind == "text"
    assert "json" not in seen(body).kinds


def test_deep_json_is_text() -> None:
    deepest = JSON_LEVELS - 1
    assert seen(b"[" * deepest + b"]" * deepest).kind == "json"
    assert seen(b'{"a":' * deepest + b"1" + b"}" * deepest).kind == "json"
    for body in (b"[" * 64 + b"]" * 64, b'{"a":' * 64 + b"1" + b"}" * 64, b"[" * 500_000 + b"]" * 500_000):
        assert seen(body).kind == "text"
        assert "64 levels" in " ".join(seen(body).notes)
    assert depth_of('["[[[", {"[": "\\"["}]') == 2
    assert depth_of("[" * 500_000) is None


def test_long_json_is_text_and_cut() -> None:
    body = b"[" + b"1," * 600_000 + b"1]"
    assert len(body) > limits.JSON_BYTES_MAX
    found = seen(body)
    assert (found.kind, found.is_cut) == ("text", True)
    assert "too long" in " ".join(found.notes)
    begun = shown(body[: limits.JSON_BYTES_MAX], len(body))
    assert (begun.kind, begun.is_cut) == ("text", True)
    short = b"[" + b"1," * 100_000 + b"1]"
    assert (seen(short).kind, seen(short).is_cut) == ("json", True)


def test_control_and_direction_characters_are_seen() -> None:
    assert seen("a\x00b\rc\x1b[31m\x7f\x85\t\n".encode()).text == "a\\x00b\\rc\\x1b[31m\\x7f[U+0085]\t\n"
    text = visible(BIDI + "\u200b\ufeff\u2028\u2060\xad\U000e0041\ud800")
    assert not set(text) & set(BIDI + "\u200b\ufeff\u2028\u2060\xad\U000e0041\ud800")
    assert "[U+202E]" in text
    assert visible("né 漢字 👩\u200d🚀 \u05e9\u05dc\u05d5\u05dd") == "né 漢字 👩\u200d🚀 \u05e9\u05dc\u05d5\u05dd"
    assert seen(b'{"a":"' + "\u202e".encode() + b'"}').text == '{\n  "a": "[U+202E]"\n}'


def test_bytes_that_are_no_utf_8_are_shown_by_their_numbers() -> None:
    found = seen(b"caf\xe9 \xc3\xa9", "text")
    assert found.text == "caf\\xe9 é"
    assert "not UTF-8" in found.notes[0]
    assert found.kinds == ("text", "hex", "base64")
    assert seen(b"\xff\x00\x01").kind == "hex"
    assert seen(b"caf\xe9").kind == "text"


def test_cut_in_a_character_is_no_mistake() -> None:
    body = "é".encode() * 10
    assert shown(body[:5], 20) == Shown("text", "éé", ("text", "hex", "base64"), is_cut=True)


def test_hex_and_base64() -> None:
    body = bytes(range(256)) * 100
    found = seen(body, "hex")
    assert found.is_cut
    lines = found.text.split("\n")
    assert len(lines) == HEX_BYTES // 16
    assert lines[4] == "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|"
    assert seen(b"ab", "hex").text == f"00000000  {'61 62':23}  {'':23}  |ab|"
    assert base64.b64decode(seen(body, "base64").text) == body
    assert not seen(body, "base64").is_cut
    assert seen(body * 10, "base64").is_cut
    assert seen(b"", "hex").text == seen(b"", "base64").text == seen(b"").text == ""


HOSTILE = [
    b"<script>alert(1)</script>" * 400_000,
    b"&" * 10_485_760,
    b"\x00" * 10_485_760,
    b"\xff" * 10_485_760,
    b'"' * 1_048_576,
    b"[[],[]," * 100_000,
    b"[" + b'"\\"",' * 170_000 + b'""]',
    b"[" + b"{}," * 340_000 + b"{}]",
    b"[" + b"1," * 500_000 + b"1]",
    b'["' + b"\\u0041" * 170_000 + b'"]',
    b'{"a":' * 200_000,
    b"[" * 1_048_576,
    "\u202e".encode() * 340_000,
    b"\n" * 1_048_576,
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: repr(body[:9]))
@pytest.mark.parametrize("kind", ["", *KINDS])
def test_hostile_bodies_are_bounded(body: bytes, kind: str) -> None:
    begun = shown(body[: limits.JSON_BYTES_MAX], len(body), kind)
    assert len(begun.text) <= BODY_TEXT_CHARS
    assert begun.is_cut
    assert not set(begun.text) & set(BIDI + "\0")


def test_preview_is_one_line() -> None:
    assert preview(b"a\nb\tc\r\n" + BIDI[4].encode() + b"\xff") == "a\\nb\\tc\\r\\n[U+202E]\ufffd"
    assert len(preview(b"x" * 1_000)) == limits.BODY_SHOWN_BYTES
