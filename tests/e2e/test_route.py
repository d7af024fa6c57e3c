"""`beanpole route`: what clients and operators see of a router, of its server, and of the end of either."""

import os
import signal
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.certificates import made
from tests.e2e.process import COMMAND, Client, Process, healthy, serving, start_in_vain, wait_until
from tests.e2e.test_access import name_of
from tests.e2e.test_listen import talk
from tests.e2e.test_systemd import bound, launcher
from tests.servers import HOST, REPLY_TIMEOUT_S, beanstalkd_server, free_port

ROUTE = [*COMMAND[:-1], "route"]


@contextmanager
def routing(server: Process, *flags: str, listen: bool = True) -> Iterator[Process]:
    """A router before a server."""
    with serving("--to", f"{HOST}:{server.port}", *flags, command=ROUTE, listen=listen) as router:
        yield router


@contextmanager
def holding(router: Process, number: int = 1) -> Iterator[Client]:
    """A client that has put a job and holds it."""
    with router.connect() as client:
        client.ask(b"put 0 0 600 1\r\nx\r\n", b"INSERTED %d\r\n" % number)
        client.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % number)
        yield client


def test_clients_are_known_by_themselves_over_tcp_and_unix_sockets(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with healthy() as server, routing(server, "-l", HOST, "-l", f"unix:{path}", "-p", "0", listen=False) as router:
        assert router.addresses == [f"tcp:{HOST}:{router.port}", f"unix:{path}"]
        with router.connect() as client:
            talk(socket.AF_UNIX, str(path))
            client.send(b"list-sessions\r\n")
            assert f"{HOST}:{client.socket.getsockname()[1]}" in client.body().decode()
        router.signal(signal.SIGTERM)
        assert router.wait_exit() == 0
        assert not path.exists()
        assert not router.ready_file.exists()


def test_router_says_what_clients_have_shown_at_its_listeners(tmp_path: Path) -> None:
    access, inside = tmp_path / "access.toml", tmp_path / "inside"
    access.write_text(
        f'[user.router]\nunix = [{os.getuid()}]\nlinks = ["shop"]\n[user.shop]\ncertificates = ["CN=shop"]\n'
    )
    access.chmod(0o644)
    ca, pair = made("ca"), made("server", f"subjectAltName=IP:{HOST}", signer="ca")
    shop = made("shop", signer="ca")
    places = (f"tls:{HOST}:0,client-ca={ca.cert}", f"{HOST}:0,user=shop", f"unix:{tmp_path}/own,mode=0600")
    flags = [word for each in places for word in ("-l", each)]
    files = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    with (
        serving("-l", f"unix:{inside}", "--access", str(access), listen=False),
        serving("--to", f"unix:{inside}", *flags, *files, command=ROUTE, listen=False) as router,
    ):
        tls, named, own = router.addresses
        context = ssl.create_default_context(cafile=str(ca.cert))
        context.load_cert_chain(shop.cert, shop.key)
        encrypted = socket.create_connection((HOST, int(tls.rpartition(":")[2])), REPLY_TIMEOUT_S)
        with Client(context.wrap_socket(encrypted, server_hostname=HOST)) as client:
            assert name_of(client) == "shop"
        with Client(socket.create_connection((HOST, int(named.rpartition(":")[2])), REPLY_TIMEOUT_S)) as client:
            assert name_of(client) == "shop"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(REPLY_TIMEOUT_S)
            connection.connect(own.removeprefix("unix:"))
            assert name_of(Client(connection)) == "router"
        assert Path(own.removeprefix("unix:")).stat().st_mode & 0o777 == 0o600


def test_router_goes_to_a_server_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with (
        serving("-l", f"unix:{path}", listen=False),
        serving("--to", f"unix:{path}", command=ROUTE) as router,
        router.connect() as client,
    ):
        client.ask(b"list-tube-used\r\n", b"USING default\r\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_router_finds_its_server_as_a_user_who_may_read_no_library() -> None:
    with healthy() as server, routing(server, "-u", "nobody") as router, router.connect():
        assert router.events("link opened")


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "exactly one of --to and --map"),
        (("--to", "a:1,b", "--to", "b:11300"), "b:11300 is there twice"),
        (("--to", "http://a"), "'http://a'"),
        (("--to", "a", "--processes", "0"), "--processes"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(flags: tuple[str, ...], said: str) -> None:
    outcome = start_in_vain(*flags, command=ROUTE)
    assert (outcome.code, outcome.error.count("\n")) == (5, 1)
    assert said in outcome.error


@pytest.mark.parametrize("host", [HOST, "localhost", "0.0.0.0"])  # noqa: S104 - where it listens is the question
def test_router_that_would_lead_to_itself_is_refused(host: str) -> None:
    port = str(free_port())
    outcome = start_in_vain("-l", f"{host}:{port}", "--to", f"{HOST}:{port}", command=ROUTE, listen=False)
    assert (outcome.code, outcome.error.count("\n")) == (5, 1)
    assert "leads to this router itself" in outcome.error


def test_router_that_would_take_the_path_of_its_server_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving("-l", f"unix:{path}", listen=False):
        outcome = start_in_vain("-l", f"unix:{path}", "--to", f"unix:{path}", command=ROUTE, listen=False)
        assert outcome.code == 5
        talk(socket.AF_UNIX, str(path))


def test_server_that_takes_no_links_is_refused() -> None:
    with beanstalkd_server() as old, serving("--fronts", "1") as fronted:
        to = f"{HOST}:{old.port},{HOST}:{fronted.port}"
        outcome = start_in_vain("--to", to, command=ROUTE)
        assert (outcome.code, outcome.error.count("\n")) == (2, 1)
        assert f"can't link to {HOST}:{old.port} and {HOST}:{fronted.port}: it takes no links" in outcome.error


# --- A server that goes and comes -------------------------------------------------------------------------------------


def test_clients_wait_for_a_server_and_are_closed_if_none_comes() -> None:
    port = free_port()
    with serving("--to", f"{HOST}:{port}", "--wait", "100ms", command=ROUTE) as router:
        assert router.events("no link")
        with router.connect(wait_accepted=False) as client:
            assert client.rest() == b""
    with serving("--to", f"{HOST}:{port}", command=ROUTE) as router, router.connect(wait_accepted=False) as client:
        client.send(b"list-tube-used\r\n")
        with serving("-l", f"{HOST}:{port}", listen=False):
            assert client.line() == b"USING default\r\n"


def test_server_that_is_killed_loses_the_clients_and_those_that_come_go_to_the_next(tmp_path: Path) -> None:
    address = ("-l", f"{HOST}:{free_port()}", "-b", str(tmp_path))
    with ExitStack() as stack:
        server = stack.enter_context(serving(*address, listen=False))
        router = stack.enter_context(routing(server))
        client = stack.enter_context(holding(router))
        fresh = stack.enter_context(router.connect(wait_accepted=False))
        server.signal(signal.SIGKILL)
        assert client.rest() == b""
        server.wait_exit()
        new = stack.enter_context(router.connect(wait_accepted=False))
        for each in (fresh, new):
            each.send(b"peek 1\r\n")
        stack.enter_context(serving(*address, listen=False))
        for each in (fresh, new):
            each.expect(b"FOUND 1 1\r\nx\r\n")
        assert len(router.events("link closed")) == 1
        assert router.events("link closed")[0]["reason"] == "ended"


def test_router_that_is_killed_gives_jobs_back_and_kept_sessions_are_waited_for() -> None:
    with healthy() as server, ExitStack() as stack:
        router = stack.enter_context(routing(server))
        stack.enter_context(holding(router))
        kept = stack.enter_context(router.connect())
        kept.send(b"keep-session 60 %b\r\n" % (b"a" * 32))
        assert kept.line().startswith(b"KEPT ")
        kept.ask(b"put 0 0 600 1\r\ny\r\n", b"INSERTED 2\r\n")
        kept.ask(b"reserve-job 2\r\n", b"RESERVED 2 1\r\ny\r\n")
        router.signal(signal.SIGKILL)
        wait_until(lambda: server.statistic("current-jobs-ready") == 1, "the job of the first is ready")
        assert server.statistic("current-jobs-reserved") == 1
        with server.connect() as again:
            again.ask(b"keep-session 60 %b\r\n" % (b"a" * 32), b"KEPT 1 2\r\n")
            again.ask(b"delete 2\r\n", b"DELETED\r\n")


# --- A router that goes -----------------------------------------------------------------------------------------------


def test_stop_signal_closes_who_needs_nothing_and_waits_for_who_holds_a_job() -> None:
    with healthy() as server, routing(server) as router, holding(router) as client, router.connect() as idle:
        router.signal(signal.SIGTERM)
        assert idle.rest() == b""
        client.ask(b"list-tube-used\r\n", b"USING default\r\n")
        client.ask(b"delete 1\r\n", b"DELETED\r\n")
        assert client.rest() == b""
        assert router.wait_exit() == 0


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["alone", "two"])
def test_second_stop_signal_ends_it_at_once(flags: tuple[str, ...]) -> None:
    with healthy() as server, routing(server, *flags) as router, holding(router) as client:
        router.signal(signal.SIGTERM)
        wait_until(lambda: router.events("stopping"), "it stops")
        router.signal(signal.SIGTERM)
        assert client.rest() == b""
        router.wait_exit()


def test_drain_has_an_end() -> None:
    with healthy() as server, routing(server, "--drain", "100ms") as router, holding(router) as client:
        router.signal(signal.SIGTERM)
        assert client.rest() == b""
        assert router.wait_exit() == 0


def test_successor_takes_the_place_and_no_client_is_refused_or_loses_its_job(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with healthy() as server, ExitStack() as stack:
        address = ("-l", f"{HOST}:{free_port()}", "-l", f"unix:{path}", "--metrics", f"{HOST}:{free_port()}")
        first = stack.enter_context(routing(server, *address, listen=False))
        client = stack.enter_context(holding(first))
        second = stack.enter_context(routing(server, *address, listen=False))
        assert second.addresses == first.addresses
        first.signal(signal.SIGTERM)
        wait_until(lambda: first.events("stopping"), "the first stops")
        for _ in range(10):
            talk(socket.AF_INET, (HOST, second.port))
            talk(socket.AF_UNIX, str(path))
        client.ask(b"delete 1\r\n", b"DELETED\r\n")
        assert first.wait_exit() == 0
        talk(socket.AF_UNIX, str(path))


def test_successor_that_can_not_start_leaves_the_path_to_its_predecessor(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with healthy() as server, beanstalkd_server() as old, routing(server, "-l", f"unix:{path}", listen=False):
        outcome = start_in_vain("-l", f"unix:{path}", "--to", f"{HOST}:{old.port}", command=ROUTE, listen=False)
        assert outcome.code == 2
        talk(socket.AF_UNIX, str(path))
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["alone", "two"])
def test_ready_file_of_a_successor_stays_when_its_predecessor_ends(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with healthy() as server, routing(server, *flags) as router:
        own = router.ready_file.read_text()
        (tmp_path / "ready").write_text(own)
        (tmp_path / "ready").replace(router.ready_file)  # as a successor with the same arguments does
        router.signal(signal.SIGTERM)
        assert router.wait_exit() == 0
        assert router.ready_file.read_text() == own


def test_sockets_of_systemd_go_on_without_it(tmp_path: Path) -> None:
    with bound(tmp_path / "socket") as (tcp, unix), healthy() as server:
        fds = (tcp.fileno(), unix.fileno())
        command = launcher(tcp, unix, command=ROUTE)
        for _ in range(2):
            to = ("--to", f"{HOST}:{server.port}")
            with serving(*to, command=command, pass_fds=fds, listen=False) as router:
                talk(socket.AF_INET, tcp.getsockname())
                talk(socket.AF_UNIX, unix.getsockname())
                router.signal(signal.SIGTERM)
                assert router.wait_exit() == 0
            with socket.create_connection(tcp.getsockname()):
                pass  # no client is refused between the two


def test_processes_share_the_clients_and_one_that_is_killed_is_started_again() -> None:
    with healthy() as server, routing(server, "--processes", "2") as router, ExitStack() as stack:
        wait_until(lambda: len(router.events("link opened")) == 2, "both have a link")
        clients = [stack.enter_context(router.connect()) for _ in range(20)]
        children = Path(f"/proc/{router.pid}/task/{router.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        wait_until(lambda: len(router.events("link opened")) == 3, "another")
        left = []
        for each in clients:
            try:
                each.ask(b"list-tube-used\r\n", b"USING default\r\n")
            except (AssertionError, OSError):
                continue
            left.append(each)
        assert 0 < len(left) < len(clients)
        router.signal(signal.SIGTERM)
        assert router.wait_exit() == 0


def metrics(port: int) -> dict[str, str]:
    """What a router's metrics say, by name and labels."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.split(" ") for line in lines if not line.startswith("#"))


def test_metrics_and_health() -> None:
    with healthy() as server:
        port = free_port()
        with routing(server, "--metrics", f"{HOST}:{port}") as router, router.connect():
            found = metrics(port)
            assert found["beanpole_router_link"] == found["beanpole_router_clients"] == "1"
            assert int(found["beanpole_router_frames_total"]) >= 2
            assert float(found["beanpole_router_wait_seconds_total"]) > 0
            with urllib.request.urlopen(f"http://{HOST}:{port}/health") as answer:
                assert answer.read() == b"ok\n"
