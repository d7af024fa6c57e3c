"""Files of schedules: what is wrong is said with its line, and what is written is read again as it was."""

import contextlib
import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.errors import ScheduleError
from beanpole.schedules.document import LINES, parse
from beanpole.schedules.file import EntryError, comment, document_of, read, section

EVERY_LINE = """
# every line once, in several tables
[nightly]
cron = "30 2 * * *"
zone = "Europe/Berlin"
weeks = 2
except = [2026-12-25, "2026-12-26"]
start = 2026-01-01T00:00:00
end = 2027-01-01T00:00:00+01:00
spread = "1h30m"
overlap = "allow"
late = "5m"
misfire = "skip"
tube = "reports"
pri = 0
delay = 1.5
ttr = "2m"
expire = "1d"
key = "k"
until = "reserve"
json = {kind = "nightly", on = [1, 2.5, true, 2026-01-01]}

["billing.monthly"]
every = "90s"
body = "a\\nb"
"""


def test_every_line_is_read() -> None:
    found = read(EVERY_LINE)
    assert {name: document.text.decode() for name, document in found.items()} == {
        "nightly": """\
cron: 30 2 * * *
zone: Europe/Berlin
weeks: 2
except: 2026-12-25 2026-12-26
start: 2026-01-01T00:00:00
end: 2027-01-01T00:00:00+01:00
spread: 5400
overlap: allow
late: 300
misfire: skip
tube: reports
pri: 0
delay: 1.5
ttr: 120
expire: 86400
key: k
until: reserve

{"kind":"nightly","on":[1,2.5,true,"2026-01-01"]}""",
        "billing.monthly": "every: 90\n\na\nb",
    }
    assert {*LINES, "body", "json", "body_base64"} - set(re.findall(r"^(\w+) =", EVERY_LINE, re.MULTILINE)) == {
        "at",
        "body_base64",
    }
    other = '[a]\nat = 2026-11-24T12:00:00.5Z\nbody_base64 = "/w=="'
    assert read(other)["a"].text == b"at: 2026-11-24T12:00:00.500Z\n\n\xff"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[a\n", 1, "this is no TOML: "),
        ("[a]\nevery = 5\n[a]\n", 3, "this is no TOML: "),
        ('[a]\nbody = """\n', 3, "this is no TOML: "),
        ("x = " + "[" * 5_000, 1, "this is no TOML: "),
        ("every = 5\n", 1, "a schedule is a table"),
        ("[[a]]\nevery = 5\n", 1, "a schedule is a table"),
        ('[a]\nevery = 5\n["b c"]\nevery = 5\n', 3, "a schedule is named as a tube"),
        ("[a]\nevery = 5\n\n[b]\n", 4, "one of cron, every and at is wanted"),
        ("[a]\nevery = 5\n[b]\nevery = 5\n# it\ncolour = 1\n", 6, "there is no line 'colour'"),
        ("[a]\nevery = 5\n[a.b]\nevery = 5\n", 3, "there is no line 'b'; a name with a dot stands in quotes"),
        ('[a]\nbody = """\n[b]\ntube = 5\n"""\nevery = "soon"\n', 6, "every: 'soon' is no time; write it as"),
        ("[a]\nevery = 5\ncron = '* * * * *'\n", 2, "cron and every contradict each other"),
        ("[a]\nevery = 5\nzone = 'Europe/Berlin'\n", 3, "no line has a local time"),
        ("[a]\ncron = '* * * * *'\nzone = 'Mars'\n", 3, "zone: there is no time zone"),
        ("[a]\ntube = 't'\ncron = '30 2 30 2 *'\n", 3, "cron: there is no such day"),
        ("[a]\ncron = '@daily'\nexcept = [\n2026-12-25,\n'soon',\n]\n", 3, "except: dates as"),
        ("[a]\nevery = 0.0005\n", 2, "every: a duration has three decimals at most"),
        ("[a]\nevery = true\n", 2, "every: S is wanted"),
        ("[a]\nevery = 5\nweeks = 1.5\n", 3, "weeks: N is wanted"),
        ("[a]\nevery = 5\nkey = ''\n", 3, "key: KEY is wanted"),
        ("[a]\nevery = 5\nkey = 'a'\ntube = \"b\\nc: d\"\n", 4, "tube: TUBE is wanted, on one line"),
        ("[a]\nat = 2026-11-24\n", 2, "at: a time as"),
        ("[a]\nat = 2026-11-24T01:02:03.0001\n", 2, "at: a time as"),
        ("[a]\nevery = 5\nbody = 'x'\njson = 1\n", 4, "body and json contradict"),
        ("[a]\nevery = 5\nbody = 1\n", 3, "body: a string is wanted"),
        ("[a]\nevery = 5\njson = nan\n", 3, "json: Out of range"),
        ("[a]\nevery = 5\nbody_base64 = 'x'\n", 3, "body_base64: "),
        (f"[a]\nevery = 5\npri = 0x{'f' * 5_000}\n", 1, "Exceeds the limit"),
        (f"[a]\nevery = 5\nbody = '{'x' * 20_000}'\n", 1, "a schedule has 16384 bytes at most"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        read(text)
    assert raised.value.why.startswith(why)
    assert raised.value.line == line


def test_strings_as_people_type_them_make_a_document() -> None:
    made = document_of({"every": "1m30s", "pri": "5"}, b"x")
    assert made.text == b"every: 90\npri: 5\n\nx"
    with pytest.raises(EntryError) as raised:
        document_of({"cron": "0 0 * * *", "except": ("2026-12-25", "x")})
    assert raised.value.key == "except"


HEADERS = st.sampled_from(
    [
        b"every: 90\n",
        b"every: 1.5\nstart: 2026-01-01T00:00:00.500Z\ndelay: 0.001\nkey: \xc3\xa9'\"\\\n",
        b"cron: 30 2 L * FRI#2\nzone: Europe/Berlin\nexcept: 2026-12-25 2026-12-26\npri: 0\nuntil: reserve\nkey: k\n",
        b"at: 2026-11-24T12:00:00\nzone: Europe/Berlin\nlate: 4294967294.999\n",
    ]
)
NAMES = st.text(string.ascii_letters + string.digits + "+/;.$_()", min_size=1, max_size=20)


@given(st.dictionaries(NAMES, st.tuples(HEADERS, st.binary() | st.text().map(str.encode)), max_size=3))
def test_what_is_written_is_read_again_as_it_was(schedules: dict[str, tuple[bytes, bytes]]) -> None:
    wanted = {name: parse(header + b"\n" + body) for name, (header, body) in schedules.items()}
    lines = [line for name, document in wanted.items() for line in section(name, document.text)]
    assert all(line.isprintable() for line in lines)
    assert read("\n".join(lines)) == wanted


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(), st.dates(), st.datetimes(), st.lists(st.text() | st.dates())
)


@given(st.dictionaries(st.sampled_from([*LINES, "x:y", "\n"]), VALUES), st.binary())
def test_any_value_makes_a_document_or_is_refused(values: dict[str, Any], body: bytes) -> None:
    with contextlib.suppress(EntryError):
        made = document_of(values, body)
        assert (parse(made.text), made.body) == (made, body)


@given(st.text())
def test_any_text_can_be_a_comment(text: str) -> None:
    assert read(comment(text)) == {}
