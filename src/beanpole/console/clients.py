"""The connections to servers."""

import socket

from beanpole.client import Address, AsyncClient, Backoff
from beanpole.console import limits


def client_of(way: Address | socket.socket) -> "AsyncClient[bytes]":
    """Returns a client that has sent nothing yet, for an address or a socket that leads to a server.

    A socket that was handed over can't be opened again, so it has no time-out: a late answer is waited for.
    """
    if isinstance(way, socket.socket):
        return AsyncClient(way, None, timeout=None, backoff=Backoff(attempts=1))
    return AsyncClient(
        way,
        None,
        timeout=limits.SILENCE_S,
        connect_timeout=limits.CONNECT_S,
        backoff=Backoff(attempts=1),
        patience=0,
    )
