"""What comes in goes out the same, and what is no request is none, whatever it is."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beanpole_ids import limits
from beanpole_ids.original import wire
from tests.examples import examples


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"b":1,"a":"x/y"}', b'{"a":"x/y","b":1}'),
        ('{"ä":"ö","a":1}'.encode(), '{"a":1,"ä":"ö"}'.encode()),
        (b'{"a":1e3,"b":2.50,"c":-0.5}', b'{"a":1000,"b":2.5,"c":-0.5}'),
        (
            b'{"a":18446744073709551615,"b":-9223372036854775808}',
            b'{"a":18446744073709551615,"b":-9223372036854775808}',
        ),
        (b'{"a":12345678901234567890123}', b'{"a":1.234567890123457e+22}'),
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b'{"a":"x\\u0000y","b\\u0000c":["\\u0000"]}', b'{"a":"x","b":[""]}'),
        (b'{"a":"\xff"}', b'{"a":"\xff"}'),
        (b'{"a":"\\u0001\x02"}', b'{"a":"\\u0001\\u0002"}'),
        (b'{"a":1} and more', b'{"a":1}'),
        (b'{/* "x" */"a":"/*y*/"// z\n}', b'{"a":"/*y*/"}'),
        (b'{"a":"\\ud83d\\ude00"}', '{"a":"😀"}'.encode()),
        (b'{"a":"\\ud800\xff"}', '{"a":"\N{REPLACEMENT CHARACTER}'.encode() + b'\xff"}'),
        (b'{"a":true,"b":null,"c":{},"d":[]}', b'{"a":true,"b":null,"c":{},"d":[]}'),
    ],
)
def test_echo(data: bytes, expected: bytes) -> None:
    found = wire.parse(data)
    assert found is not None
    assert wire.render(found) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" {}",
        b"[]",
        b"1",
        b"{",
        b'{"a":1,}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":' + b"9" * 10_000 + b"}",
        b'{"a":' + b"[" * 20_000,
        b'{"a":' * 4_000,
        b'{"a":' + b"[" * 979 + b"]" * 978 + b"}",
        b'{"a":' + b"[" * 200 + b"]" * 100 + b"}" * 100,
        b'{"a":"' + b'\\"' * 10_000,
        b"{" + b"/*" * 10_000,
        b'{"a"' + b'"' * 20_000 + b"/",
    ],
)
def test_no_request(data: bytes) -> None:
    assert wire.parse(data) is None


LEVELS = limits.DEPTH_MAX - 1
"""Of lists within an object: what may be."""


def lists(count: int) -> bytes:
    return b"[" * count + b"]" * count


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":' + lists(LEVELS) + b"}",
        b'{"a":' * LEVELS + b"{}" + b"}" * LEVELS,
        b'{"a":[' + b",".join([b"[]"] * 5_000) + b"]}",
        b'{"a":"' + lists(LEVELS + 1) + b'"}',
        b'{"a":"\\"' + b"[" * 500 + b'"}',
    ],
)
@pytest.mark.parametrize("more", [b"", b"[" * 5_000])
def test_what_is_not_too_deep(data: bytes, more: bytes) -> None:
    assert wire.parse(b'{/*"' + b"[" * 500 + b"*/" + data[1:]) == json.loads(data)
    found = wire.parse(data + more)
    assert found is not None
    assert found == json.loads(data)
    assert wire.render(found) == data


@pytest.mark.parametrize("depth", [LEVELS + 1, 500, *range(900, 1_101, 10), 3_000])
@pytest.mark.parametrize("ends", ["[]", '{"x":}'])
def test_too_deep(depth: int, ends: str) -> None:
    """Between depths that can be written and those that can't even be read there were some that ended the process."""
    inner = ends[:-1] * depth + "1" + ends[-1] * depth
    for before, after in (("", ""), ("[", ',"]"]'), ("[/*]*/", "// ]\n]")):
        with pytest.raises(wire.TooDeepError, match="deeper than 100") as caught:
            wire.parse(f'{{"seq":1,"x":{before}{inner}{after},"y":[],"z":"[\\u0000"}}'.encode())
        assert caught.value.plain == {"seq": 1, "z": "["}


@settings(deadline=None)  # machines are shared
@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"{" + data))
def test_any_bytes(data: bytes) -> None:
    found = wire.parse(data)
    assert found is None or wire.render(found)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(st.characters(min_codepoint=1, codec="utf-8"), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)  # machines are shared
@given(st.dictionaries(st.text("abc"), JSON))
def test_any_object(given_object: dict[str, object]) -> None:
    assert wire.parse(json.dumps(given_object).encode()) == given_object
    assert wire.parse(wire.render(given_object)) == given_object


def to_text(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in members) + "}"


NUMBERS = st.from_regex(r"-?[0-9]{1,22}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
STRINGS = st.lists(
    st.text(max_size=3)
    | st.sampled_from(
        ["\\u0000", "\\ud800", "\\ud83d\\ude00", "\\u00e4", "\\n", "\\/", "\\x", "\t", "\0", "/*", "\x7f", "\udcff"]
    ),
    max_size=4,
).map(lambda parts: f'"{"".join(parts)}"')
VALUES = st.recursive(
    NUMBERS | STRINGS | st.sampled_from(["true", "false", "null", "NaN", "nul", "", "01", "/* x */ 1", "-0", "1.0"]),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda each: f"[{','.join(each)}]")
        | st.lists(st.tuples(STRINGS, inner), max_size=2).map(to_text)
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=examples(500))  # machines are shared
@given(st.lists(st.tuples(STRINGS, VALUES), max_size=4).map(to_text), st.sampled_from(["", " ", "x", "//", "}"]))
def test_short_way_reads_and_writes_as_the_long_one(text: str, more: str) -> None:
    """What orjson reads and writes is what the standard library would."""
    data = (text + more).encode("utf-8", "surrogatepass")
    found, expected = wire.parse(data), wire.parse_any(data)
    assert repr(found) == repr(expected)
    if found is not None:
        assert wire.render(found) == wire.render_any(found)
