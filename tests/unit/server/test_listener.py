"""Addresses as users write them."""

import socket

import pytest

from beanpole.errors import StartError
from beanpole.server.listener import bind_http, split_address


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("127.0.0.1", ("127.0.0.1", 11300)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("localhost", ("localhost", 11300)),
        ("localhost:1", ("localhost", 1)),
        ("::", ("::", 11300)),
        ("::1", ("::1", 11300)),
        ("fe80::1%eth0", ("fe80::1%eth0", 11300)),
        ("[::1]", ("::1", 11300)),
        ("[::1]:7", ("::1", 7)),
        ("[127.0.0.1]:7", ("127.0.0.1", 7)),
    ],
)
def test_address_is_split(text: str, split: tuple[str, int]) -> None:
    assert split_address(text, 11300) == split


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        ":1",
        "[]",
        "[]:1",
        "[::1",
        "[::1]7",
        "[::1]:",
        "a:",
        "a:x",
        "a:-1",
        "a:+1",
        "a:1.0",
        "a:65536",
        "a:٣",
        "a: 1",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|host|port"):
        split_address(text, 11300)


def test_the_address_of_a_console_that_ends_is_waited_for() -> None:
    other = socket.create_server(("127.0.0.1", 0))
    port = other.getsockname()[1]
    with bind_http(f"127.0.0.1:{port}", 0, lambda _: other.close()) as bound:
        assert bound.getsockname()[1] == port


def test_an_address_that_is_never_free_is_refused_in_the_end() -> None:
    pauses: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(StartError, match="already in use"):
        bind_http(f"127.0.0.1:{other.getsockname()[1]}", 0, pauses.append)
    assert 1 <= sum(pauses) <= 3
