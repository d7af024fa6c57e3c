"""The document of a schedule: what is read is written back in one form, and what is wrong is refused with its line."""

import contextlib
import zoneinfo
from importlib import import_module
from pathlib import Path
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.errors import ScheduleError
from beanpole.protocol.limits import DOCUMENT_BYTES_MAX
from beanpole.schedules.document import HEADER_BYTES_MAX, LINES, check, parse
from beanpole.schedules.zones import ZoneError, data_version, zone


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("cron: 30 2 * * *\n\nbody", "cron: 30 2 * * *\n\nbody"),
        ("cron:30  2\t* * mon-fri \r\n\r\n\r\nbody\n", "cron: 30 2 * * MON-FRI\n\n\r\nbody\n"),
        ("every: 0000060\n", "every: 60\n\n"),
        ("every: 60\ndelay: 0\nspread: 0\nexpire: 0\n", "every: 60\n\n"),
        ("every: 1.50", "every: 1.5\n\n"),
        (
            "tube: a\nttr: 60\npri: 65536\noverlap: skip\nlate: 60\nmisfire: once\nevery: 60\n\nx",
            "every: 60\ntube: a\n\nx",
        ),
        (
            "every: 60\npri: 0\noverlap: allow\nmisfire: skip\n\n",
            "every: 60\noverlap: allow\nmisfire: skip\npri: 0\n\n",
        ),
        (
            "at: 2026-03-29T02:30:00.500\nzone: Europe/Berlin\n\n",
            "at: 2026-03-29T02:30:00.500\nzone: Europe/Berlin\n\n",
        ),
        ("at: 2026-03-29t02:30:00z\n\n", "at: 2026-03-29T02:30:00Z\n\n"),
        ("at: 2026-03-29T02:30:00+00:00\n\n", "at: 2026-03-29T02:30:00Z\n\n"),
        (
            "cron: @daily\nstart: 2026-01-01T00:00:00\nweeks: 2\nexcept: 2026-12-26 2026-12-25 2026-12-26\n\n",
            "cron: @daily\nweeks: 2\nexcept: 2026-12-25 2026-12-26\nstart: 2026-01-01T00:00:00\n\n",
        ),
        ("every: 60\nkey: k\nuntil: reserve\n\n", "every: 60\nkey: k\nuntil: reserve\n\n"),
    ],
)
def test_document_is_written_in_one_form(text: str, written: str) -> None:
    document = parse(text.encode())
    assert document.text == written.encode()
    assert parse(document.text) == document


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 0, "one of cron, every and at is wanted"),
        ("\ncron: * * * * *", 0, "one of cron, every and at is wanted"),
        ("tube: a\n\n", 0, "one of cron, every and at is wanted"),
        ("cron: * * * * *\nevery: 5\n\n", 2, "cron and every contradict each other"),
        ("every: 5\nevery: 5\n\n", 2, "every is there twice"),
        ("every: 5\ncolour: red\n\n", 2, "there is no line 'colour'"),
        ("every: 5\nEvery: 5\n\n", 2, "there is no line 'Every'"),
        ("every\n", 1, "a line is a name, a colon and a value"),
        ("every: \n\n", 1, "a line is a name, a colon and a value"),
        ("every: 5\n{}\n", 2, "behind an empty line stands the body"),
        ("every: 5\n tube: a\n\n", 2, "there is no line ' tube'"),
        ("every: 5\ntube: a\0\n\n", 2, "no control character"),
        ("every: 0\n\n", 1, "every: a number of seconds above 0 is wanted"),
        ("every: 0.5\n\n", 1, "every: from 1 to 4294967295 seconds are wanted"),
        ("every: 5 6\n\n", 1, "every: one value is wanted"),
        ("every: 5\nspread: 86401\n\n", 2, "spread: from 0 to 86400 seconds are wanted"),
        ("cron: * * * *\n\n", 1, "cron: a cron expression has 5 fields"),
        ("cron: @reboot\n\n", 1, "cron: '@reboot': a schedule knows nothing of starts"),
        ("at: tomorrow\n\n", 1, "at: a time as 2026-03-29T02:30:00"),
        ("at: 2026-02-30T00:00:00\n\n", 1, "at: there is no time"),
        ("at: 1969-01-01T00:00:00\n\n", 1, "at: a time is from 1970 to 2199"),
        ("at: 2026-01-01T00:00:00\nstart: 2026-01-01T00:00:00\n\n", 2, "start says nothing of a single time"),
        ("every: 60\nweeks: 2\n\n", 2, "weeks goes only with cron"),
        ("cron: @daily\nweeks: 2\n\n", 2, "weeks goes only with start"),
        ("cron: @daily\nexcept: 25.12.2026\n\n", 2, "except: dates as 2026-12-25 are wanted"),
        ("cron: @daily\nexcept: " + " ".join(f"2026-{m:02}-{d:02}" for m in range(1, 6) for d in range(1, 29)) + "\n\n",
         2, "except: there are 100 dates at most"),
        ("every: 60\nzone: Europe/Berlin\n\n", 2, "no line has a local time for which a zone counts"),
        ("cron: @daily\nzone: ../../etc/passwd\n\n", 2, "zone: the name of a time zone"),
        ("cron: @daily\nzone: /etc/passwd\n\n", 2, "zone: the name of a time zone"),
        ("every: 5\nuntil: reserve\n\n", 2, "until goes only with key"),
        ("every: 5\noverlap: queue\n\n", 2, "overlap: allow or skip is wanted"),
        ("every: 5\ntube: -a\n\n", 2, "tube: a tube's name has 1 to 200"),
        ("every: 5\nkey: " + "k" * 201 + "\n\n", 2, "key: a key has 1 to 200 bytes"),
        ("every: 5\nttr: 0\n\n", 2, "ttr: a whole number from 1"),
        ("every: 5\npri: 1\npri: 1\n\n", 3, "pri is there twice"),
        ("every: 5\nkey: " + "k" * HEADER_BYTES_MAX + "\n\n", 2, f"have {HEADER_BYTES_MAX} bytes at most"),
    ],
)  # fmt: skip
def test_wrong_line_is_refused_by_its_number(text: str, line: int, why: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse(text.encode())
    assert (refused.value.line, why in refused.value.why) == (line, True), refused.value


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("cron: 30 2 30 2 *\n\n", 1, "there is no such day in 50 years"),
        ("zone: Europe/Atlantis\ncron: @daily\n\n", 1, "there is no time zone 'Europe/Atlantis'"),
        ("every:5\n\n" + "x" * (DOCUMENT_BYTES_MAX - 9), 0, f"a schedule has {DOCUMENT_BYTES_MAX} bytes at most"),
        ("cron: @daily\nzone: Europe/Atlantis\n\n", 2, "there is no time zone 'Europe/Atlantis'"),
        ("every: 60\nstart: 2026-01-02T00:00:00\nend: 2026-01-01T00:00:00\n\n", 3, "end is before start"),
        ("cron: 0 0 1 1 *\nstart: 2026-02-01T00:00:00\nend: 2026-03-01T00:00:00\n\n", 0, "it never fires"),
        ("cron: @yearly\nexcept: 2027-01-01\nstart: 2026-02-01T00:00:00\nend: 2027-03-01T00:00:00\n\n", 0, "never"),
    ],
)  # fmt: skip
def test_what_a_search_or_a_zone_tells_is_refused(text: str, line: int, why: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        check(parse(text.encode()))
    assert (refused.value.line, why in refused.value.why) == (line, True), refused.value


@pytest.mark.parametrize(
    "name", ["Europe", "right/UTC", "posixrules", "a/../b", "UTC/", ".", "x" * 65, "tzdata.zi", "Étale"]
)
def test_what_is_no_zone_opens_no_file(name: str) -> None:
    with pytest.raises(ZoneError):
        zone(name)


def test_every_zone_of_the_data_has_a_name_that_is_taken() -> None:
    for name in available_timezones() - {"localtime"}:
        assert zone(name).key == name


def test_version_of_the_zone_data(tmp_path: Path) -> None:
    """By the files that zones are read from, or else by the package."""
    zoneinfo.reset_tzpath([tmp_path])
    try:
        assert data_version() == import_module("tzdata").IANA_VERSION
        (tmp_path / "Etc").mkdir()
        (tmp_path / "Etc" / "UTC").touch()
        assert data_version() == ""
        (tmp_path / "+VERSION").write_text("2024a\n")
        assert data_version() == "2024a"
        (tmp_path / "tzdata.zi").write_text("# version 2025b\n# more\n")
        assert data_version() == "2025b"
    finally:
        zoneinfo.reset_tzpath()


@given(
    st.lists(st.tuples(st.sampled_from([*LINES, "x", ""]), st.text(max_size=12)), max_size=6), st.binary(max_size=20)
)
def test_any_text_is_read_or_refused(lines: list[tuple[str, str]], body: bytes) -> None:
    text = "".join(f"{name}: {value}\n" for name, value in lines).encode() + b"\n" + body
    with contextlib.suppress(ScheduleError):
        document = parse(text)
        assert parse(document.text) == document
        check(document)
