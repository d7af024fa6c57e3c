"""Which arguments are plain enough to listen before they are read properly."""

import pytest

from beanpole.server import early

PLAIN: list[tuple[list[str], tuple[tuple[str, ...], int]]] = [
    ([], ((), 11300)),
    (["-l", "127.0.0.1", "-p", "0"], (("127.0.0.1",), 0)),
    (["--listen=127.0.0.1", "--listen", "[::1]:5", "--port=11301"], (("127.0.0.1", "[::1]:5"), 11301)),
    (["-z", "-p", "-V", "--ready-file", "-l", "--log-format=json"], ((), 11300)),
    (["-p", "1", "-p", "2"], ((), 2)),
]

NOT_PLAIN = [
    ["-b", "/data"],
    ["--data-dir=/data"],
    ["--config", "file"],
    ["-p11300"],
    ["-p=1"],
    ["--port", "many"],
    ["--port", "65536"],
    ["-p"],
    ["-l", "unix:/socket"],
    ["--help"],
    ["-v"],
    ["extra"],
]


@pytest.mark.parametrize(("arguments", "expected"), PLAIN)
def test_plain_arguments(arguments: list[str], expected: tuple[tuple[str, ...], int]) -> None:
    assert early.wanted(arguments, {}, 11300) == expected


@pytest.mark.parametrize("arguments", NOT_PLAIN)
def test_arguments_that_are_left_to_the_command_line(arguments: list[str]) -> None:
    assert early.wanted(arguments, {}, 11300) is None


@pytest.mark.parametrize("name", early.VARIABLES)
def test_environment_that_is_left_to_the_command_line(name: str) -> None:
    assert early.wanted([], {name: "1"}, 11300) is None
    assert early.wanted([], {name: ""}, 11300) == ((), 11300)


def test_sockets_for_other_settings_are_closed() -> None:
    early.listen(["-l", "127.0.0.1", "-p", "0"], {})
    (opened,) = next(iter(early.opened.values()))
    assert early.take((), 11300) == []
    assert opened.fileno() == -1
    early.listen(["-l", "127.0.0.1", "-p", "0"], {})
    (taken,) = early.take(("127.0.0.1",), 0)
    assert taken.getsockname()[1] > 0
    taken.close()
    assert early.take(("127.0.0.1",), 0) == []
