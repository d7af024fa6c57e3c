"""Which arguments are plain enough to listen before they are read properly."""

import pytest

from beanpole.cli.serve import serve
from beanpole.server import early

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
    ["extra"],
]


@pytest.mark.parametrize("arguments", PLAIN)
def test_plain_arguments_are_read_as_the_command_line_reads_them(arguments: list[str]) -> None:
    given = serve.make_context("serve", [*arguments]).params
    assert early.wanted(arguments, {}) == (given["listen"], given["port"])


@pytest.mark.parametrize("arguments", NOT_PLAIN)
def test_arguments_that_are_left_to_the_command_line(arguments: list[str]) -> None:
    assert early.wanted(arguments, {}) is None


@pytest.mark.parametrize("name", early.VARIABLES)
def test_environment_that_is_left_to_the_command_line(name: str) -> None:
    assert early.wanted([], {name: "1"}) is None
    assert early.wanted([], {name: ""}) == ((), 11300)
