"""Thousands of hostile datagrams to a real process, from senders that are gone or do not read: it is never deaf.

A failure prints the seed; the same seed sends the same datagrams.
"""

import random
import socket
from pathlib import Path

import pytest

from tests.e2e.hostile import datagram
from tests.e2e.process import answers, running, write_rules
from tests.processes import wait_until

FLOOD_TIMEOUT_S = 120.0
"""How long a flood may take: a slow machine formats three million numbers."""


@pytest.mark.long
def test_hostile_datagrams(tmp_path: Path) -> None:
    """Also such as come faster than they can be served, and whose replies nobody wants."""
    seed = random.SystemRandom().getrandbits(32)
    chance = random.Random(seed)
    with running(tmp_path, write_rules(tmp_path), limits={}) as service:
        address = service.socket.getpeername()
        for round_ in range(20):
            # Each is closed with replies under way: the service's socket is told that nobody is there.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(150):
                    sender.sendto(datagram(chance), address)
            wait_until(lambda: answers(service, f"after-{round_}"), f"it still answers, seed {seed}", FLOOD_TIMEOUT_S)  # noqa: B023
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            for _ in range(3_000):
                sender.sendto(b'{"action":"get","app_name":"a","rule_name":"order","count":1000}', address)
            wait_until(lambda: answers(service, "flood"), f"it answers after a flood, seed {seed}", FLOOD_TIMEOUT_S)
        assert service.end() == 0
        assert "Traceback" not in service.messages(), f"seed {seed}"
