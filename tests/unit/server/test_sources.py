"""Where clients come from, and who makes room for another."""

import os
import random
import socket
from dataclasses import dataclass

import pytest

from beanpole.server.sources import Sources, source_of


@dataclass(eq=False)
class Item:
    """Who comes from somewhere."""

    source: int


@pytest.mark.parametrize(
    ("listens", "connects", "source"),
    [
        ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.9"), "127.0.0.9"),
        ((socket.AF_INET6, "::"), (socket.AF_INET, "127.0.0.9"), "127.0.0.9"),
        ((socket.AF_INET6, "::1"), (socket.AF_INET6, "::1"), "::/64"),
    ],
    ids=["IPv4", "IPv4 at a socket of both", "IPv6"],
)
def test_source_of_an_address(
    listens: tuple[socket.AddressFamily, str], connects: tuple[socket.AddressFamily, str], source: str
) -> None:
    both = listens[1] == "::"
    with (
        socket.create_server((listens[1], 0), family=listens[0], dualstack_ipv6=both) as listener,
        socket.socket(connects[0]) as client,
    ):
        client.bind((connects[1], 0))
        client.connect(("127.0.0.1" if connects[0] == socket.AF_INET else "::1", listener.getsockname()[1]))
        with listener.accept()[0] as accepted:
            assert source_of(accepted.fileno()) == source


def test_source_of_a_unix_socket_is_a_uid() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert source_of(theirs.fileno()) == os.getuid()


@pytest.mark.parametrize("seed", range(5))
def test_the_oldest_of_the_source_with_most(seed: int) -> None:
    """As a list of all of them says it, in order."""
    rng = random.Random(seed)
    sources: Sources[Item] = Sources()
    there: list[Item] = []
    for _ in range(500):
        if rng.random() < 0.6:
            there.append(Item(rng.randrange(5)))
            sources.add(there[-1])
        elif there:
            sources.discard(there[0])
            sources.discard(there.pop(0))
        assert sources.count == len(there)
        oldest = sources.oldest_of_most()
        if not there:
            assert oldest is None
            continue
        assert oldest is not None
        by_source = {each.source: [other for other in there if other.source == each.source] for each in there}
        assert by_source[oldest.source][0] is oldest
        assert len(by_source[oldest.source]) == max(map(len, by_source.values()))
