"""What a front says of clients that come in by an entrance."""

import os
import pwd
import socket
from functools import partial

import pytest

from beanpole.front.entering import enter, name_of
from beanpole.server.entrance import Entrance
from beanpole.server.places import Place, parse
from beanpole.server.tlscontext import Certificate
from tests.certificates import made
from tests.servers import HOST
from tests.unit.front.house import DRAIN, OPEN, House, served
from tests.unit.server.links import Loop

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


def test_the_system_is_not_asked_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(("shop", "mail"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((next(names), *[""] * 6)))
    assert [name_of(-7, 1), name_of(-7, 1), name_of(-7, 2)] == ["shop", "shop", "mail"]


def test_a_client_with_more_names_than_open_may_have_is_closed(house: House) -> None:
    names = frozenset(f"DNS:{number:060}" for number in range(20))
    ours, theirs = socket.socketpair()
    with ours:
        enter(house.front, theirs.detach(), parse(HOST), None, Certificate(names, 0))
        assert ours.recv(1) == b""
    assert (house.frames(), house.observer.refused) == ([], [HOST])


def test_who_has_not_shaken_hands_makes_room_for_one_who_comes() -> None:
    pair = made("server", f"subjectAltName=IP:{HOST}")
    with served(connections_max=2) as house:
        entrance = Entrance([parse(f"tls:{HOST}")], str(pair.cert), str(pair.key))
        house.front.stop_accepting()
        entrance.open(house.front, [house.listener], Loop(), partial(enter, house.front))  # type: ignore[arg-type]
        silent = [house.connect() for _ in range(4)]
        assert entrance.handshakes is not None
        assert {each: count for each, count in entrance.handshakes.counts.items() if count} == {"pushed-out": 2}
        assert [each.recv(1) for each in silent[:2]] == [b"", b""]
        entrance.close()


def test_a_front_that_drains_takes_nobody_whose_handshake_ends_then(house: House) -> None:
    house.front.drain()
    ours, theirs = socket.socketpair()
    with ours:
        enter(house.front, theirs.detach(), parse(HOST), None, None)
        assert ours.recv(1) == b""
    assert [kind for _, kind, _ in house.frames()] == [DRAIN]
