"""``beanpole schedule``, as far as it needs no server: when schedules fire, and what is wrong with them."""

import json
from pathlib import Path

import pytest

from beanpole.cli.main import main
from beanpole.errors import ExitCode
from beanpole.schedules.document import LINES


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["schedule", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def test_help_names_every_line_and_set_has_an_option_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(lines_of(capsys, "--help"))
    options = "\n".join(lines_of(capsys, "set", "--help"))
    for name in LINES:
        assert f"\n    {name}: " in text
        assert f" --{name} " in options


def test_next_times_are_in_utc_and_by_the_clock_of_the_zone(capsys: pytest.CaptureFixture[str]) -> None:
    given: tuple[object, ...] = (
        "--cron",
        "30 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--from",
        "2026-03-28T00:00:00Z",
        "--count",
        3,
    )
    assert lines_of(capsys, "next", *given) == [
        "utc\tlocal",
        "2026-03-28T01:30:00Z\tSat 2026-03-28 02:30:00 CET",
        "2026-03-29T01:00:00Z\tSun 2026-03-29 03:00:00 CEST (the clock goes forward)",
        "2026-03-30T00:30:00Z\tMon 2026-03-30 02:30:00 CEST",
    ]
    given = ("--every", "1h30m", "--start", "2026-01-01T00:00:00.5Z", "--from", "2025-01-01T00:00:00", "-n", 2)
    assert lines_of(capsys, "next", *given)[1:] == [
        "2026-01-01T00:00:00.500Z\tThu 2026-01-01 00:00:00 UTC",
        "2026-01-01T01:30:00.500Z\tThu 2026-01-01 01:30:00 UTC",
    ]
    given = ("--cron", "@daily", "--except", "2026-12-25", "--except", "2026-12-26", "--from", "2026-12-25")
    assert lines_of(capsys, "next", *given, "-n", 1)[1:] == ["2026-12-27T00:00:00Z\tSun 2026-12-27 00:00:00 UTC"]


def test_next_times_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text('[a]\nat = 2030-01-01T00:00:00Z\n["b.c"]\ncron = "@daily"\n')
    given = ("next", "--file", file, "--from", "2029-12-31T00:00:01Z", "-n", 2)
    assert lines_of(capsys, *given) == [
        "name\tutc\tlocal",
        "a\t2030-01-01T00:00:00Z\tTue 2030-01-01 00:00:00 UTC",
        "b.c\t2030-01-01T00:00:00Z\tTue 2030-01-01 00:00:00 UTC",
        "b.c\t2030-01-02T00:00:00Z\tWed 2030-01-02 00:00:00 UTC",
    ]
    (found,) = lines_of(capsys, *given, "a", "--json")
    assert json.loads(found) == {"name": "a", "utc": "2030-01-01T00:00:00Z", "local": "Tue 2030-01-01 00:00:00 UTC"}
    assert main(["schedule", "next", "--file", str(file), "c"]) == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["next"], "give NAME, or --file, or else options"),
        (["next", "a", "--cron", "@daily"], "give NAME, or --file, or else options"),
        (["next", "--cron", "* * * *"], "a cron expression has 5 fields"),
        (["next", "--at", "tomorrow"], "'tomorrow' is no time: a time as"),
        (["next", "--cron", "@daily", "--zone", "Mars"], "no time zone 'Mars'"),
        (["next", "--file", "/nonexistent"], "/nonexistent"),
        (["set", "a b", "--every", "1m"], "letters, digits"),
        (["set", "a", "--every", "15x"], "'15x' is no time; write it as"),
        (["set", "a"], "one of cron, every and at is wanted"),
        (["set", "a", "--cron", "@daily", "--every", "1m"], "cron and every contradict each other"),
        (["set", "a", "--cron", "30 2 30 2 *"], "cron: there is no such day"),
        (["set", "a", "--every", "1m", "x" * 20_000], "a schedule has 16384 bytes at most"),
        (["fire", "a", "--to", "2026-01-01T00:00:00"], "go with --from"),
        (["fire", "a", "--dry-run"], "go with --from"),
        (["fire", "a", "--from", "2026-01-01T00:00:00", "--at", "2026-01-01T00:00:00"], "exclude each other"),
        (["apply", "/nonexistent"], "/nonexistent"),
        (["apply", "/dev/null", "--prune", "a b"], "letters, digits"),
        (["pause"], "Missing argument"),
    ],
)
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(["schedule", *arguments]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"[a]\nevery = 5\n[b]\nevery = 'soon'\n", ":4: every: 'soon' is no time; write it as in 90, 10m, 1h30m"),
        (b"[a]\nevery = 5\nbody = '\xff'\n", ":3: this is not UTF-8; nothing was changed"),
        (b"[a]\nevery = \n", ":2: this is no TOML: "),
    ],
)
def test_a_mistake_in_a_file_is_said_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes, sentence: str
) -> None:
    file = tmp_path / "schedules.toml"
    file.write_bytes(data)
    assert main(["schedule", "apply", str(file)]) == ExitCode.USAGE
    assert f"beanpole: {file}{sentence}" in capsys.readouterr().err
