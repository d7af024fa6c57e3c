"""Where the server listens: Unix sockets, IPv6, and several addresses at once."""

import socket
from pathlib import Path

import pytest

from tests.e2e.process import Client, serving, start_in_vain
from tests.servers import HOST, REPLY_TIMEOUT_S


def talk(family: socket.AddressFamily, address: str | tuple[str, int]) -> None:
    with socket.socket(family) as connection:
        connection.settimeout(REPLY_TIMEOUT_S)
        connection.connect(address)
        Client(connection).ask(b"use a\r\n", b"USING a\r\n")


def test_stale_unix_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    with serving("-l", f"unix:{path}", listen=False):
        talk(socket.AF_UNIX, str(path))


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_other_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "socket"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nothing")
    outcome = start_in_vain("-l", f"unix:{path}", listen=False)
    assert outcome.code == 111
    assert outcome.error.count("\n") == 1
    assert str(path) in outcome.error
    assert " port " not in outcome.error
    assert path.is_symlink() if kind == "link" else path.exists()
    assert kind != "file" or path.read_text() == "precious"


def test_ipv6_without_brackets_takes_the_port_of_the_flag() -> None:
    with serving("-l", "::1", "-p", "0", listen=False) as process:
        assert process.port != 0
        talk(socket.AF_INET6, ("::1", process.port))


def test_several_addresses(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    flags = ["-l", HOST, "-l", "[::1]", "-l", f"unix:{path}", "-l", f"{HOST}:0", "-p", "0"]
    with serving(*flags, listen=False) as process:
        four, six, unix, another = process.addresses
        ports = [int(address.rpartition(":")[2]) for address in (four, six, another)]
        assert 0 not in ports
        assert ports[0] != ports[2]
        assert unix == f"unix:{path}"
        for port in (ports[0], ports[2]):
            talk(socket.AF_INET, (HOST, port))
        talk(socket.AF_INET6, ("::1", ports[1]))
        talk(socket.AF_UNIX, str(path))
        (line,) = process.events("listening")
        assert line["addresses"] == process.addresses


def test_addresses_are_all_or_nothing(tmp_path: Path) -> None:
    outcome = start_in_vain("-l", "192.0.2.1", "--ready-file", str(tmp_path / "ready"))
    assert outcome.code == 111
    assert not list(tmp_path.iterdir())


def test_every_address_is_the_default() -> None:
    with serving("-p", "0", listen=False) as process:
        talk(socket.AF_INET, (HOST, process.port))
        talk(socket.AF_INET6, ("::1", process.port))
        [warning] = process.events("open to other machines")
        assert "-l 127.0.0.1" in str(warning["advice"])
    with serving() as process:
        assert not process.events("open to other machines")


def test_unix_socket_of_a_running_server_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving("-l", f"unix:{path}", listen=False):
        outcome = start_in_vain("-l", f"unix:{path}", listen=False)
        assert outcome.code == 111
        assert outcome.error.count("\n") == 1
        assert str(path) in outcome.error
        assert "another server" in outcome.error
        talk(socket.AF_UNIX, str(path))
    assert not path.exists(), "the file is removed at the stop"


def test_unix_socket_that_another_server_has_replaced_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving("-l", f"unix:{path}", listen=False):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
    assert path.exists()
