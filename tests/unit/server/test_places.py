"""What may stand behind the address of a listener."""

import grp
import os
import socket
import stat
from pathlib import Path

import pytest

from beanpole.errors import StartError
from beanpole.server.places import Place, open_all, parse


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:1,user=shop", Place("127.0.0.1:1,user=shop", "127.0.0.1:1", user="shop")),
        (
            "unix:/s,mode=0660,group=daemon",
            Place("unix:/s,mode=0660,group=daemon", "unix:/s", mode=0o660, group=grp.getgrnam("daemon").gr_gid),
        ),
        ("tls:[::]", Place("tls:[::]", "[::]", tls=True)),
        (
            "tls:h:1,client-ca=/ca,client-cert=optional",
            Place("tls:h:1,client-ca=/ca,client-cert=optional", "h:1", True, "/ca", False),
        ),
        ("fd:queue,user=shop", Place("fd:queue,user=shop", "fd:queue", user="shop")),
    ],
)
def test_place(text: str, place: Place) -> None:
    assert parse(text) == place


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h:1,", "behind an address may stand"),
        ("h:1,name=a", "behind an address may stand client-ca=, client-cert=, user=, mode=, group="),
        ("h:1,user=", "user=: a user's name has"),
        ("h:1,user=-x", "user=-x: a user's name has"),
        ("h:1,user=a,user=b", "user= is there twice"),
        ("h:1,mode=660", "mode= is for an address that begins with unix:"),
        ("unix:/s,mode=rw", "mode= is three octal digits"),
        ("unix:/s,group=nobody-at-all", "there is no group 'nobody-at-all'"),
        ("h:1,client-ca=/ca", "client-ca= is for an address that begins with tls:"),
        ("tls:h:1,client-cert=optional", "client-cert= needs client-ca=FILE"),
        ("tls:h:1,client-ca=/ca,client-cert=no", "client-cert= is required or optional"),
        ("tls:unix:/s", "behind tls: stands HOST or HOST:PORT"),
        ("tls::1", "names no host"),
        ("tls:h:x", "no port"),
    ],
)
def test_no_place(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("text", "has_users", "has_key", "why"),
    [
        ("tls:h", True, False, "needs --tls-cert and --tls-key"),
        ("tls:h,user=a", False, True, "give --access"),
        ("h:1", True, True, "nobody can be anybody there"),
        ("h:1,user=a", True, False, ""),
        ("unix:/s", True, False, ""),
        ("tls:h", False, True, ""),
        ("fd:a", True, False, ""),
    ],
)
def test_what_makes_no_sense_is_said(text: str, *, has_users: bool, has_key: bool, why: str) -> None:
    found = parse(text).check(has_users=has_users, has_key=has_key)
    assert why in found
    assert bool(why) == bool(found)


def test_a_unix_socket_has_its_permissions_before_anybody_can_connect(tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    (bound,) = open_all([parse(f"unix:{tmp_path}/s,mode=0604,group={group}")], 0, [], {})
    with bound, socket.socket(socket.AF_UNIX) as client:
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o604
        with pytest.raises(ConnectionRefusedError):
            client.connect(str(tmp_path / "s"))


def test_sockets_of_systemd_go_by_their_names() -> None:
    first, second = socket.socket(), socket.socket()
    with first, second:
        names = {"LISTEN_FDNAMES": "a:b"}
        assert open_all([parse("fd:b,user=x"), parse("fd:a,user=y")], 0, [first, second], names) == [second, first]
        with pytest.raises(StartError, match="systemd handed over no socket c"):
            open_all([parse("fd:c,user=x")], 0, [first, second], names)
