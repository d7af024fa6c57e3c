"""Which sockets other machines can connect to, and those with whose end a console ends."""

import asyncio
import socket
from pathlib import Path

import pytest

from beanpole.cli.console import is_reached
from beanpole.console.run import watch
from beanpole.console.settings import Pairs
from tests.unit.console.instant import in_loop


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


@pytest.mark.parametrize("ended", range(4))
@in_loop
async def test_a_console_stops_when_any_of_its_pairs_is_at_its_end(ended: int) -> None:
    pairs = [socket.socketpair() for _ in range(4)]
    is_over = asyncio.Event()
    gone = watch(Pairs(pairs[0][0], tuple(ours for ours, _ in pairs[1:])), is_over.set)
    await asyncio.sleep(0)
    assert not is_over.is_set()
    pairs[ended][1].shutdown(socket.SHUT_RDWR)
    await asyncio.wait_for(is_over.wait(), 60)
    gone.close()
    for pair in pairs:
        for each in pair:
            each.close()
