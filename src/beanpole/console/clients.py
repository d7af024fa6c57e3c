"""The connections to servers."""

import socket

from beanpole.client import Address, AsyncClient, Backoff

SILENCE_S = 10
"""Seconds after which a connection counts as broken: a server that hangs for less goes on on the same one."""

CONNECT_S = 2
"""Seconds that a connection may take."""


def client_of(way: Address | socket.socket) -> "AsyncClient[bytes]":
    """Returns a client that has sent nothing yet, for an address or a socket that leads to a server.

    A socket that was handed over can't be opened again, so it has no time-out: a late answer is waited for.
    """
    if isinstance(way, socket.socket):
        return AsyncClient(way, None, timeout=None, backoff=Backoff(attempts=1))
    return AsyncClient(
        way,
        None,
        timeout=SILENCE_S,
        connect_timeout=CONNECT_S,
        backoff=Backoff(attempts=1),
        patience=0,
    )
