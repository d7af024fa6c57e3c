"""`beanpole-ids check`: what it says of rules."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from beanpole_ids.cli.main import main

AT = "2026-11-21T12:00"
DAILY = '[[rule]]\nname = "r"\ntemplate = "O{year:02}{month:02}{day:02}{counter:06}"\ncycle = "day"\n'


@pytest.mark.parametrize(
    ("rule", "rate", "expected"),
    [
        (
            'template = "{counter:03}"\nbatch = 10',
            "2",
            [
                "r: first 000  next 001  last 999",
                "1000 numbers in all",
                "2026-11-21 12:08:20+00:00",
                "a crash costs an application up to 15 numbers, 1.50% of all, or those that its waiting requests ask",
            ],
        ),
        (
            'template = "{year:04}{yday:03}{counter:02}"\ncycle = "day"\ntime_zone = "Europe/Berlin"',
            "0.001",
            [
                "100 numbers each day of Europe/Berlin, enough for 0.00116/s",
                "at 0.001/s: enough; the cycle ends 2026-11-22 00:00:00+01:00",
            ],
        ),
        (
            'template = "{year:04}{yday:03}{hour:02}{counter:01}"\ncycle = 3600\nbatch = 5',
            "1",
            [
                "a crash costs an application up to 7 numbers, 70.00% of a cycle, or those that its waiting",
                "warning: that is more than 10%; a smaller batch costs less\n",
                "10 numbers each 3600 s of UTC, enough for 0.00278/s",
                "at 1/s: runs out after 10 s, 2026-11-21 12:00:10+00:00; the cycle ends 2026-11-21 13:00:00+00:00",
            ],
        ),
        (
            'template = "{year:04}-{counter:05}"\ncycle = "year"\nbatch = 1',
            "0.001",
            [
                "100000 numbers each year of UTC",
                "a crash costs an application the numbers that its waiting requests ask for: a client's last `count`",
            ],
        ),
        (
            'kind = "snowflake"\nsequence_bits = 4',
            "20000",
            [
                "until 2089-09-06 15:47:35+00:00, up to 16000/s",
                "too fast, numbers run ahead of the clock",
                "after a crash numbers show a time that is up to 10 s later than it is",
            ],
        ),
        ('kind = "uuid7"', "1", ["until after the year 9999, up to 4096000/s", "at 1/s: enough"]),
    ],
)
def test_check_says_how_long_numbers_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str, rate: str, expected: list[str]
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'offset = 0\n[[rule]]\nname = "r"\n{rule}\n')
    assert main(["check", str(path), "--at", AT, "--rate", rate]) == 0
    printed = capsys.readouterr().out
    for each in expected:
        assert each in printed


def test_check_says_that_nodes_share_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Invoices of two nodes were promised without gaps, and each node has every second number."""
    path = tmp_path / "rules.toml"
    path.write_text(f"step = 2\n{DAILY}batch = 1\n")
    assert main(["check", str(path), "--at", AT]) == 0
    assert "numbers of this node are 2 apart: those between them are other nodes', and may be gaps\n" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("rule", ['template = "{counter:03}"\ncycle = "day"', 'kind = "snowflake"\nepoch = 2026-12-01'])
def test_check_ends_as_serve_does(tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'offset = 0\n[[rule]]\nname = "r"\n{rule}\n')
    assert main(["check", str(path), "--at", AT]) == 5
    assert "beanpole-ids: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("sqlite://", "what is in memory is forgotten"),
        (
            "sqlite+aiosqlite:///ids.db",
            "sqlite+aiosqlite is no kind of database that can be used; write sqlite:///FILE",
        ),
        ("oracle://x/y", "oracle is no kind of database that can be used"),
        ("nonsense", "write sqlite:///FILE"),
        ("mysql+pymysql://host:port/ids", "there is no number where one must be: 'port'"),
        ("mysql+pymysql://host/ids?read_timeout=x", "there is no number where one must be: 'x'"),
    ],
)
def test_check_refuses_an_address_of_a_database_as_serve_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, reason: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'listen = "127.0.0.1:0"\ndatabase = "{address}"\n{DAILY}')
    said = []
    for verb in ("check", "serve"):
        assert main([verb, str(path)]) == 5
        printed = capsys.readouterr()
        assert printed.out == ""
        said.append(printed.err)
    assert said[0] == said[1]
    assert "cannot use the database: " in said[0]
    assert reason in said[0]


def test_help_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["serve"], ["check"]):
        assert main([*arguments, "--help"]) == 0
        assert "..." not in capsys.readouterr().out.replace("[ARGS]...", "")


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "-1", "many"])
def test_rate_is_a_number_above_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(DAILY)
    assert main(["check", str(path), "--rate", rate]) == 5
    assert f"{rate!r} is no number above 0" in capsys.readouterr().err


def test_moment_is_of_utc_unless_it_says_otherwise_and_now_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(DAILY)
    shown = []
    for at in (["--at", "2026-11-24T05:59+05:00"], ["--at", "2026-11-24"], []):
        before = f"first O{datetime.now(UTC):%y%m%d}"
        assert main(["check", str(path), *at]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert before in shown[2] or f"first O{datetime.now(UTC):%y%m%d}" in shown[2]
