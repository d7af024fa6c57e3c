"""What a front says of clients that come in by an entrance."""

import os
import pwd
import socket

import pytest

from beanpole.front.entering import enter
from beanpole.server.places import Place, parse
from beanpole.server.tlscontext import Certificate
from tests.servers import HOST
from tests.unit.front.house import OPEN, House

ME = pwd.getpwuid(os.getuid()).pw_name.encode()
SHOP = Certificate(frozenset({"DNS:shop", "CN=shop"}), 4_000_000_000)


def said_of(house: House, place: Place, certificate: Certificate | None = None) -> bytes:
    """What OPEN says of one end of a pair of sockets."""
    ours, theirs = socket.socketpair()
    with ours:
        enter(house.front, theirs.detach(), place, None, certificate)
        ((_, kind, about),) = house.frames()
    assert kind == OPEN
    return about


@pytest.mark.parametrize(
    ("place", "certificate", "about"),
    [
        ("unix:/x", None, b"peer unix\nway unix\nuid %b\n" % ME),
        ("unix:/x,user=shop", None, b"peer unix\nway unix\nuser shop\n"),
        (f"{HOST},user=shop", None, b"peer unix\nway tcp\nuser shop\n"),
        (
            f"{HOST}",
            SHOP,
            b"peer unix\nway tcp\ncertificate CN=shop\ncertificate DNS:shop\nuntil 4000000000\n",
        ),
    ],
)
def test_what_a_client_has_shown_is_said(
    house: House, place: str, certificate: Certificate | None, about: bytes
) -> None:
    assert said_of(house, parse(place), certificate) == about


def test_a_client_with_more_names_than_open_may_have_is_closed(house: House) -> None:
    names = frozenset(f"DNS:{number:060}" for number in range(20))
    ours, theirs = socket.socketpair()
    with ours:
        enter(house.front, theirs.detach(), parse(HOST), None, Certificate(names, 0))
        assert ours.recv(1) == b""
    assert (house.frames(), house.observer.refused) == ([], [HOST])
