"""Which sockets other machines can connect to."""

import socket
from pathlib import Path

import pytest

from beanpole.cli.console import is_reached


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", False), ("127.0.0.2", False), ("::1", False), ("0.0.0.0", True), ("::", True)],  # noqa: S104
)
def test_only_loopback_is_not_reached(host: str, expected: bool) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        assert is_reached(listening) is expected


def test_a_unix_socket_is_not_reached(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert not is_reached(listening)
