"""Which names a request may use."""

import pytest

from beanpole.console.security.guard import is_allowed

NAMES = frozenset({"queue.example", "console"})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:11380",
        "127.0.0.1",
        "192.0.2.7:11380",
        "[::1]",
        "[2001:db8::1]:11380",
        "[fe80::1%eth0]:11380",
        "queue.example",
        "Queue.Example.:80",
        "console:11380",
    ],
)
def test_an_address_and_a_known_name_are_allowed(host: str) -> None:
    assert is_allowed(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "[",
        "[evil.example]",
        "console.evil",
        "127.1.evil:80",
        "127.0.0.1:80/login?x=",
        "127.0.0.1:80@evil.example",
        "localhost:80#x",
        "[::1]evil.example",
        "[::1]:80/x",
        "::1",
    ],
)
def test_any_other_name_is_refused(host: str) -> None:
    assert not is_allowed(host, NAMES)
