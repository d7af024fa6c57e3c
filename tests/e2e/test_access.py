"""Who may connect to a server with users, by which way, and who has to leave when its files change."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beanpole.access import tokens
from tests.e2e.process import Client, Process, serving, start_in_vain, wait_until
from tests.e2e.test_systemd import bound, launcher
from tests.servers import HOST, REPLY_TIMEOUT_S

USERS = """
[user.admin]
unix = [{uid}]
admin = true

[user.shop]
put = ["orders"]

[user.mail]
reserve = ["orders"]
"""

NOT_AUTHENTICATED = b"NOT_AUTHENTICATED\r\n"


class Site:
    """The files of a server with users."""

    def __init__(self, folder: Path) -> None:
        self.access = folder / "access.toml"
        self.tokens = folder / "tokens"
        self.path = folder / "socket"
        self.write(USERS.format(uid=os.getuid()))
        self.shop = tokens.add(self.tokens, "shop")

    def write(self, text: str) -> None:
        self.access.write_text(text)
        self.access.chmod(0o644)

    @contextmanager
    def serving(self, *more: str) -> Iterator[Process]:
        flags = ("--access", str(self.access), "--tokens", str(self.tokens), *more)
        with serving("-l", f"{HOST}:0,user=mail", "-l", f"unix:{self.path}", *flags, listen=False) as process:
            yield process

    def client(self, *lines: bytes) -> Client:
        """A client of the Unix socket that has said something."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(REPLY_TIMEOUT_S)
        connection.connect(str(self.path))
        client = Client(connection)
        client.send(b"".join(each + b"\r\n" for each in lines))
        return client


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def name_of(client: Client) -> str:
    """The user as whom a client is served."""
    client.send(b"list-rights\r\n")
    return client.body().decode().splitlines()[1].removeprefix("user: ")


def wait_for_event(process: Process, event: str, seen: int) -> None:
    """Waits until a server has said something once more."""
    wait_until(lambda: len(process.events(event)) > seen, f"{event} is said")


@pytest.mark.parametrize("fronts", [(), ("--fronts", "1")], ids=["server", "fronts"])
def test_who_it_is(site: Site, fronts: tuple[str, ...]) -> None:
    with site.serving(*fronts) as process:
        with site.client() as client:
            assert name_of(client) == "admin"
            client.ask(b"auth " + site.shop + b"\r\n", b"BAD_FORMAT\r\n")
        with site.client(b"auth " + site.shop) as client:
            client.expect(b"AUTHENTICATED shop\r\n")
            assert name_of(client) == "shop"
            client.ask(b"use orders\r\nput 0 0 60 1\r\na\r\n", b"USING orders\r\nINSERTED 1\r\n")
        with process.connect() as client:
            assert name_of(client) == "mail"
            client.ask(b"watch orders\r\nreserve\r\n", b"WATCHING 2\r\nRESERVED 1 1\r\na\r\n")
        with process.connect() as client:  # nobody may read a token on the way
            client.ask(b"auth " + site.shop + b"\r\n", b"UNKNOWN_COMMAND\r\n")
            client.ask(b"use a\r\n", b"USING a\r\n")


@pytest.mark.parametrize("token", [b"", b"bp_", b"bp_" + b"a" * 43, b"x" * 219])
def test_a_wrong_token_ends_the_connection(site: Site, token: bytes) -> None:
    with site.serving(), site.client(b"auth " + token, b"put 0 0 60 1", b"a") as client:
        assert client.rest() == NOT_AUTHENTICATED


def test_a_token_may_come_byte_by_byte_and_with_commands_behind(site: Site) -> None:
    with site.serving(), site.client() as client:
        for byte in b"auth " + site.shop + b"\r":
            client.send(bytes([byte]))
        client.send(b"\nuse orders\r\n")
        client.expect(b"AUTHENTICATED shop\r\nUSING orders\r\n")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"put 0 0 60 1\r\na\r\n", b"UNKNOWN_COMMAND\r\n"),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\nput 0 0 60 1\r\na\r\n", b"UNKNOWN_COMMAND\r\n"),
        (b"quit\r\n", b"UNKNOWN_COMMAND\r\n"),
        (b"\x16\x03\x01\x02\x00\x01\x00", b"UNKNOWN_COMMAND\r\n"),
        (b"list-extensions\r\nput 0 0 60 1\r\na\r\n", NOT_AUTHENTICATED),
        (b"auth " + b"a" * 220, NOT_AUTHENTICATED),
        (b"beanpole-link 1 - 0 -\r\n", NOT_AUTHENTICATED),
    ],
)
def test_a_stranger_has_one_line(site: Site, said: bytes, answer: bytes) -> None:
    site.write(USERS.format(uid=os.getuid() + 1))
    with site.serving() as process:
        with site.client() as client:
            client.send(said)
            assert client.rest() == answer
        assert process.statistic("current-jobs-ready") == 0


def test_users_and_tokens_that_go_take_their_connections_with_them(site: Site) -> None:
    with site.serving() as process:
        shop, mail, admin = site.client(b"auth " + site.shop), process.connect(), site.client()
        with shop, mail, admin:
            shop.expect(b"AUTHENTICATED shop\r\n")
            assert (name_of(mail), name_of(admin)) == ("mail", "admin")
            tokens_before = site.tokens.read_text()
            site.tokens.write_text("# none\n")
            process.signal(signal.SIGHUP)
            assert shop.rest() == b""
            site.tokens.write_text(tokens_before)
            site.write(USERS.format(uid=os.getuid()).replace("[user.admin]", "[user.root]"))
            process.signal(signal.SIGHUP)
            assert admin.rest() == b""
            assert name_of(mail) == "mail"
            with site.client() as client:
                assert name_of(client) == "root"


def test_a_file_that_became_wrong_leaves_the_old_in_force(site: Site) -> None:
    with site.serving() as process, site.client() as client:
        assert name_of(client) == "admin"
        for text in ("", "[user.admin]\nput = 7\n", USERS.format(uid=os.getuid())[:-2]):
            site.write(text)
            seen = len(process.events("files not read"))
            process.signal(signal.SIGHUP)
            wait_for_event(process, "files not read", seen)
        assert name_of(client) == "admin"
        said = str(process.events("files not read")[1]["reason"])
        assert said.startswith(f"{site.access}:2: admin: put: ")


def test_rights_change_with_the_file(site: Site) -> None:
    with site.serving() as process, site.client(b"auth " + site.shop) as client:
        client.expect(b"AUTHENTICATED shop\r\n")
        client.ask(b"use mail\r\nput 0 0 60 1\r\na\r\n", b"USING mail\r\nUNKNOWN_COMMAND\r\n")
        site.write(USERS.format(uid=os.getuid()).replace('put = ["orders"]', 'put = ["mail"]'))
        process.signal(signal.SIGHUP)
        wait_until(lambda: process.events("access read"), "the file is read")
        client.ask(b"use mail\r\nput 0 0 60 1\r\na\r\n", b"USING mail\r\nINSERTED 1\r\n")
        client.ask(b"use orders\r\nput 0 0 60 1\r\na\r\n", b"USING orders\r\nUNKNOWN_COMMAND\r\n")


def test_what_may_lie_in_tubes_changes_with_the_file(site: Site) -> None:
    users, put = site.access.read_text(), b"put-job 1 tube=m-a\r\nx\r\n"
    site.write(f'{users}[space."m-*"]\nlimits = {{ jobs = 1 }}\n')
    with site.serving() as process, site.client() as client:
        client.ask(put + put, b"INSERTED 1\r\nOUT_OF_MEMORY\r\n")
        site.write(f'{users}[space."m*"]\nlimits = {{ jobs = 2 }}\n')
        process.signal(signal.SIGHUP)
        wait_until(lambda: process.events("access read"), "the file is read")
        client.ask(put + put, b"INSERTED 2\r\nOUT_OF_MEMORY\r\n")


def test_the_end_of_a_token_that_is_moved_nearer_counts(site: Site) -> None:
    """It is over a second after it was changed, or when the file is read."""
    shop = tokens.add(site.tokens, "shop", time.time() + 9_999)
    with site.serving() as process, site.client(b"auth " + shop) as client, site.client(b"stats") as admin:
        client.expect(b"AUTHENTICATED shop\r\n")
        stats = dict(line.split(": ") for line in admin.body().decode().splitlines()[1:])
        assert 9_000 < int(stats["token-seconds-left"]) < 9_999
        assert (stats["users"], stats["access-refused"]) == ("3", "0")
        lines = site.tokens.read_text().split(" until=")
        site.tokens.write_text(f"{lines[0]} until={tokens.date_text(time.time() + 1)}\n")
        process.signal(signal.SIGHUP)
        assert client.rest() == b""


def test_the_log_says_who_did_what_and_has_no_secret(site: Site) -> None:
    wrong = b"bp_" + b"w" * 43
    with site.serving() as process:
        with site.client(b"auth " + site.shop) as client, site.client() as admin:
            client.expect(b"AUTHENTICATED shop\r\n")
            client.ask(b"use orders\r\nput 0 0 60 9\r\na-secret!\r\n", b"USING orders\r\nINSERTED 1\r\n")
            client.ask(b"kick 5\r\n", b"UNKNOWN_COMMAND\r\n")
            admin.ask(b"delete 1\r\n", b"DELETED\r\n")
        with site.client(b"auth " + wrong) as client:
            assert client.rest() == NOT_AUTHENTICATED
        acts = [tuple(event[key] for key in ("user", "command", "tube", "result")) for event in process.events("audit")]
        assert acts == [("shop", "kick", "orders", "refused"), ("admin", "delete", "orders", "allowed")]
        assert [event["reason"] for event in process.events("not authenticated")] == ["nobody has this token"]
        assert not [each for each in (site.shop, wrong, b"a-secret!") if each.decode() in process.output]


def test_sockets_of_systemd_have_users_as_others_have(site: Site) -> None:
    flags = ("-l", "fd:tcp,user=mail", "-l", "fd:unix", "--access", str(site.access), "--tokens", str(site.tokens))
    with bound(site.path) as (tcp, unix):
        fds, names = (tcp.fileno(), unix.fileno()), {"LISTEN_FDNAMES": "tcp:unix"}
        with serving(*flags, command=launcher(tcp, unix), pass_fds=fds, listen=False, env=names) as process:
            with process.connect() as client:
                assert name_of(client) == "mail"
            with site.client() as client:
                assert name_of(client) == "admin"


def test_tokens_without_users_are_not_ignored(site: Site) -> None:
    outcome = start_in_vain("--tokens", str(site.tokens))
    assert outcome.code == 5
    assert "--tokens needs the file of users" in outcome.error


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("-l", HOST), "nobody can be anybody there"),
        (("-l", f"{HOST},user=nobody"), "there is no nobody, and a listener names it"),
        (("-l", f"{HOST},user=mail", "--http", HOST), "--http with --access: users log in there by tokens"),
        (("-l", "tls:127.0.0.1"), "nobody can be anybody there: give --tokens, or add client-ca=FILE or user=NAME"),
        (("-l", "tls:127.0.0.1,user=mail"), "needs --tls-cert and --tls-key"),
        (("-l", f"{HOST},user=mail", "--tls-cert", "a"), "belong together"),
        (("-l", f"{HOST},user=mail", "--tls-cert", "a", "--tls-key", "b"), "give -l tls:HOST as well"),
        (("-l", "tls:127.0.0.1,user=mail", "--tls-cert", "/nothing", "--tls-key", "/nothing"), "/nothing"),
        ((), "--access needs places to listen"),
    ],
)
def test_what_makes_no_sense_does_not_start(site: Site, flags: tuple[str, ...], why: str) -> None:
    outcome = start_in_vain(*flags, "--access", str(site.access), listen=False)
    assert outcome.code == 5
    assert why in outcome.error
