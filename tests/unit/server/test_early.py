"""Which arguments are plain enough to listen before they are read properly, and which need no click at all."""

from pathlib import Path

import pytest

from beanpole.cli.serve import serve
from beanpole.server import early
from beanpole.server.settings import Settings

PLAIN = [
    [],
    ["-l", "127.0.0.1", "-p", "0"],
    ["--listen=127.0.0.1", "--listen", "[::1]:5", "--port=11301"],
    ["-z", "1", "-V", "--ready-file", "-l", "--log-format=json"],
    ["-p", "1", "-p", "2"],
    ["-p11300", "-cnVV", "-l127.0.0.1"],
    ["--http", "127.0.0.1:0", "--http-host=a", "--http-hide-bodies", "--metrics-tubes", "a*", "--legacy-metrics"],
    ["--tubes-max", "5", "--connections-max=5", "--one-reply-per-send", "-u", "nobody", "--verbose"],
]

NOT_PLAIN = [
    ["-b", "/data"],
    ["--data-dir=/data"],
    ["--config", "file"],
    ["-p=1"],
    ["--port", "many"],
    ["--port", "65536"],
    ["-p", "65536", "-p", "1"],
    ["-p"],
    ["-l", "unix:/socket"],
    ["-l", "127.0.0.1", "-l", "unix:/socket"],
    ["--http", "127.0.0.1:0", "--http-token-file=tokens"],
    ["--help"],
    ["-v"],
    ["--por=1"],
    ["extra"],
]

WITHOUT_CLICK = [
    [],
    ["-l", "127.0.0.1", "-l", "unix:/socket", "-p", "0", "-Vp1", "--verbose"],
    ["-b", "new", "--ready-file=missing/ready", "-z", "1073741824", "-u", "nobody"],
    ["--data-dir", ".", "--http=127.0.0.1:0", "--log-format", "json", "--one-reply-per-send"],
    ["--tubes-max=1", "--schedules-max=0", "--once-max=4294967294", "--connections-max=0012"],
]

WITH_CLICK = [
    ["-z", "1KiB"],
    ["-z", "1073741825"],
    ["-z", "-1"],
    ["-l", "a:65536"],
    ["-l", ""],
    ["-u", ""],
    ["-b", "file"],
    ["--ready-file", "file"],
    ["--http", "unix:/socket"],
    ["--log-format", "xml"],
    ["--tubes-max", "0"],
    ["--once-max", "4294967295"],
    ["--http-hide-bodies"],
    ["-c"],
    ["-F"],
    ["--conf=file"],
    ["-h"],
]


@pytest.mark.parametrize("arguments", PLAIN)
def test_plain_arguments_are_read_as_the_command_line_reads_them(arguments: list[str]) -> None:
    given = serve.make_context("serve", [*arguments]).params
    assert early.wanted(early.read(arguments), {}) == (given["listen"], given["port"])


@pytest.mark.parametrize("arguments", WITHOUT_CLICK)
def test_settings_without_click_are_those_with_it(arguments: list[str]) -> None:
    found = early.settings(early.read(arguments), {})
    assert found is not None
    given = serve.make_context("serve", [*arguments]).params
    assert (given.pop("no_fsync"), given.pop("fsync_ms")) == (False, None)
    assert Settings(**found) == Settings(**given)


@pytest.mark.parametrize("arguments", WITH_CLICK)
def test_what_is_wrong_or_warned_of_is_left_to_click(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert early.settings(early.read(arguments), {}) is None


def test_variables_are_left_to_click() -> None:
    assert early.settings([], {"BEANPOLE_VERBOSE": "1"}) is None


@pytest.mark.parametrize("arguments", NOT_PLAIN)
def test_arguments_that_are_left_to_the_command_line(arguments: list[str]) -> None:
    assert early.wanted(early.read(arguments), {}) is None


@pytest.mark.parametrize("name", early.VARIABLES)
def test_environment_that_is_left_to_the_command_line(name: str) -> None:
    assert early.wanted(early.read([]), {name: "1"}) is None
    assert early.wanted(early.read([]), {name: ""}) == ((), 11300)
