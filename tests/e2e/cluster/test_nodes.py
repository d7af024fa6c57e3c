"""Nodes as processes: how they start, refuse, hand over, stop, and what they say."""

import contextlib
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import forks
from tests.databases import DatabaseServers
from tests.e2e.cluster.conftest import SILENCE_MS, Cluster
from tests.e2e.cluster.test_verbs import HANDOVER, answer, ask, roles
from tests.e2e.process import COMMAND, Process, serving, start_in_vain, wait_until
from tests.servers import REPLY_TIMEOUT_S, STOP_TIMEOUT_S

URL = "postgresql://beanpole@/beanpole?host=/nowhere"
NODE = ("--cluster", URL, "--node", "a")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--cluster", URL), "--node NAME"),
        (("--node", "a"), "give --cluster as well"),
        (("--cluster-wait", "5"), "give --cluster as well"),
        (("--advertise", "a:1"), "give --cluster as well"),
        ((*NODE, "-b", "/tmp"), "-b keeps the log in files"),  # noqa: S108 - it is refused
        ((*NODE, "-f", "0"), "-f is about the disk"),
        ((*NODE, "-F"), "-F is about the disk"),
        ((*NODE, "-s", "1000000"), "-s is about files"),
        ((*NODE, "-z", "1000000"), "`beanpole cluster init` sets it for all nodes"),
        (("--cluster", URL, "--node", "a b"), "letters, digits"),
        (("--cluster", "postgresql://a b/c d?=", "--node", "a"), "write postgresql://"),
        ((*NODE, "--advertise", "a"), "names no port"),
        ((*NODE, "--advertise", "0.0.0.0:11300"), "every address"),
        ((*NODE, "--advertise", "a:b"), "no port from 0 to 65535"),
    ],
)
def test_wrong_flags_are_refused_in_a_sentence(flags: tuple[str, ...], sentence: str) -> None:
    done = start_in_vain(*flags)
    assert (done.code, len(done.error.splitlines())) == (5, 1), done.error
    assert sentence in done.error


def test_an_address_that_others_reach_is_needed(cluster: Cluster) -> None:
    cluster.init()
    done = start_in_vain("--cluster", cluster.url, "--node", "a", "-p", "0", listen=False)
    assert done.code == 5
    assert "--advertise HOST:PORT" in done.error


def test_a_node_of_a_database_without_a_cluster_says_that_once(cluster: Cluster) -> None:
    done = start_in_vain("--cluster", cluster.url, "--node", "a")
    assert done.code == 1
    assert "beanpole cluster init" in done.error
    assert "does not exist" not in done.error


def test_a_node_warns_of_what_is_unsafe(cluster: Cluster) -> None:
    cluster.init()
    unsafe = cluster.url.replace("beanpole@", "beanpole:secret@")
    with Cluster(cluster.database, unsafe).node("b") as node:
        assert "~/.pgpass" in node.messages
        assert "secret" not in node.messages


def test_a_fail_over_keeps_jobs_and_closes_each_client_once(cluster: Cluster) -> None:
    """Those that come back at once wait, at the node that will lead and at the one that will not."""
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b, cluster.node("c") as c:
        cluster.wait_alive("a", "b", "c")
        with a.connect() as of_leader, b.connect() as of_follower:
            for id, each in enumerate((of_leader, of_follower), 1):
                each.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % id)
            a.signal(signal.SIGKILL)
            for each in (of_leader, of_follower):
                assert each.rest() == b""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(node.connect(wait_accepted=False)) for node in (b, c) for _ in range(10)]
            for each in clients:
                each.send(b"put 0 0 60 1\r\nx\r\nquit\r\n")
            ids = sorted(int(each.rest().split()[1]) for each in clients)
            assert ids == list(range(3, 23))
        ask(b, (b"reserve-with-timeout 1\r\n", b"RESERVED 1 1\r\nx\r\n"), (b"delete 1\r\n", b"DELETED\r\n"))


def test_rows_are_compressed(cluster: Cluster) -> None:
    with cluster.database.connected() as connection:
        methods = "select enumvals from pg_settings where name = 'default_toast_compression'"
        if "lz4" not in (connection.exec_driver_sql(methods).scalar() or ()):
            pytest.skip("PostgreSQL was built without LZ4")
    cluster.init()
    with cluster.node("a") as a:
        ask(
            a,
            (
                b"put 0 0 60 50000\r\n" + 1000 * b'{"mail": "to whom it may concern", "retries": 3}, ' + b"\r\n",
                b"INSERTED 1\r\n",
            ),
        )
        assert cluster.count("log_1", "length(data) > 50000 and pg_column_compression(data) = 'lz4'") == 1
        assert cluster.count("log_1", "length(data) > 50000 and pg_column_size(data) > 5000") == 0


def put_until_closed(process: Process) -> None:
    """Puts jobs without a pause, and reads the replies, until the connection is closed."""
    puts = b"put 0 0 60 1\r\nx\r\n" * 5000
    left = memoryview(puts)
    with process.connect() as client, contextlib.suppress(ConnectionError):
        client.socket.setblocking(False)
        while True:
            readable, writable, _ = select.select([client.socket], [client.socket], [], REPLY_TIMEOUT_S)
            if readable and not client.socket.recv(1 << 18):
                return
            if writable:
                left = left[client.socket.send(left) :] or memoryview(puts)
            assert readable or writable, "the server does nothing"


def test_sigterm_hands_over_though_a_client_never_stops(cluster: Cluster) -> None:
    cluster.init(5000)
    with cluster.node("a") as a, cluster.node("b") as b, ThreadPoolExecutor() as threads:
        cluster.wait_alive("a", "b")
        client = threads.submit(put_until_closed, a)
        wait_until(lambda: a.statistic("current-jobs-ready") > 20_000, "it is busy")
        a.signal(signal.SIGTERM)
        assert a.wait_exit() == 0
        client.result()
        cluster.wait_leader("b")
        assert cluster.count("log_1", f"kind = {HANDOVER}") == 1
        assert "no node that is alive leads" not in b.messages
        wait_until(lambda: roles(cluster) == {"a": "stopped", "b": "leader"}, "both say what they are")


def test_sigterm_of_the_only_node_waits_for_nobody(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a:
        ask(a, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"))
        a.signal(signal.SIGTERM)
        assert a.wait_exit() == 0
        assert a.events("no other node is there to lead")
    with cluster.node("a") as a:
        ask(a, (b"peek 1\r\n", b"FOUND 1 1\r\nx\r\n"))


def test_stop_is_reported_though_the_first_host_is_silent(cluster: Cluster, tmp_path: Path) -> None:
    cluster.init()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / ".s.PGSQL.5432"))
        silent.listen()
        url = cluster.url.replace("host=", f"host={tmp_path},")
        with Cluster(cluster.database, url).node("a") as a:
            a.signal(signal.SIGTERM)
            assert a.wait_exit() == 0
    assert cluster.count("node", "role = 'stopped'") == 1


def test_sigusr1_is_refused(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a:
        a.signal(signal.SIGUSR1)
        wait_until(lambda: a.events("not draining"), "a line about it")
        assert "step-down" in str(a.events("not draining")[0]["advice"])
        ask(a, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"))


def test_a_leader_that_the_others_cannot_reach_hands_over(cluster: Cluster) -> None:
    """Its address is wrong: PostgreSQL sees it, and no client of the others does."""
    cluster.init()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with cluster.node("a", "--advertise", address):
            flags = ("--cluster", cluster.url, "--node", "b")
            with cluster.node("b", *flags) as b:  # ready means that it leads
                cluster.wait_leader("b")
                assert b.events("leader is not reached")[0]["address"] == address


def test_a_leader_with_the_address_of_another_cluster_hands_over(
    cluster: Cluster, database_servers: DatabaseServers
) -> None:
    """Its node closes what is passed on to it: that is no leader that is reached."""
    cluster.init()
    with database_servers.database() as database:
        elsewhere = Cluster(database, database.url.replace("postgresql+psycopg:", "postgresql:"))
        elsewhere.init()
        with (
            elsewhere.node("x") as x,
            cluster.node("a", "--advertise", f"127.0.0.1:{x.port}"),
            cluster.node("b") as b,  # ready means that it leads
        ):
            cluster.wait_leader("b")
            reasons = [str(line["reason"]) for line in b.events("leader is not reached")]
            assert any("does not lead the cluster" in each for each in reasons), reasons


def test_a_leader_whose_name_does_not_resolve_is_a_log_line(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a", "--advertise", "nowhere.invalid:11300"), cluster.node("b") as b:
        line = b.events("leader is not reached")[0]
        assert line["address"] == "nowhere.invalid:11300"
        assert "--advertise" in str(line["advice"])


def test_clients_are_sent_away_while_nothing_is_confirmed(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a", "--cluster-wait", "1") as a, a.connect() as client:
        server = cluster.database.server
        assert server is not None
        with server.frozen():
            client.send(b"put 0 0 60 1\r\nx\r\n")
            assert client.rest() == b"", "nothing is answered, and the connection is closed"
            with a.connect(wait_accepted=False) as another:
                assert another.rest() == b"", "and so is a new one"
            assert a.events("clients sent away")
        wait_until(lambda: a.events("clients taken again"), "it goes on")
        ask(a, (b"put 0 0 60 1\r\ny\r\n", b"INSERTED 2\r\n"))


def test_clients_of_a_follower_are_sent_away_while_no_leader_is_reached(cluster: Cluster) -> None:
    cluster.init(500)
    with cluster.node("a") as a:
        cluster.set_silence(600_000)  # so that b does not lead before it has been looked at
        with cluster.node("b", "--cluster-wait", "1") as b:
            a.signal(signal.SIGKILL)
            wait_until(lambda: b.events("clients sent away"), "b gives up")
            with b.connect(wait_accepted=False) as client:
                client.send(b"list-tube-used\r\n")
                assert client.rest() == b""
            cluster.set_silence(500, "b")
            cluster.wait_leader("b")
            wait_until(lambda: serves(b), "it serves clients again")


def test_clients_are_sent_away_while_no_leader_is_known(cluster: Cluster) -> None:
    cluster.init(500)
    with cluster.node("a", "--cluster-wait", "1") as a, a.connect() as client:
        cluster.set_silence(600_000)  # so that it does not lead again before it has been looked at
        cluster.database.run("insert into beanpole.step_down values (1, '*')")
        assert client.rest() == b"", "it does not lead any more"
        with a.connect(wait_accepted=False) as another:
            assert another.rest() == b""
        wait_until(lambda: a.events("clients sent away"), "it says so")
        assert a.events("clients sent away")[-1]["reason"] == "no leader is known"
        cluster.set_silence(500, "a")
        wait_until(lambda: serves(a), "it serves clients again")
        assert len(a.events("leading")) >= 2


def serves(node: Process) -> bool:
    """Whether a node answers a client; one that sends clients away closes the connection at once."""
    with node.connect(wait_accepted=False) as client, contextlib.suppress(ConnectionError):
        client.send(b"list-tube-used\r\nquit\r\n")
        return client.rest() == b"USING default\r\n"
    return False


def test_systemd_hears_of_a_follower_that_answers(cluster: Cluster, tmp_path: Path) -> None:
    cluster.init()
    path = tmp_path / "notify"
    with cluster.node("a") as a, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(REPLY_TIMEOUT_S)
        with serving("--cluster", cluster.url, "--node", "b", env={"NOTIFY_SOCKET": str(path)}) as b:
            assert systemd.recv(100) == b"READY=1"
            assert not b.events("leading")
            ask(b, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"))
            b.signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert b.wait_exit() == 0
        ask(a, (b"peek 1\r\n", b"FOUND 1 1\r\nx\r\n"))


def first_message(url: str) -> str:
    """What a node says first that finds no PostgreSQL; a signal ends it."""
    flags = ["--cluster", url, "--node", "a", "-l", "127.0.0.1", "-p", "0"]
    with forks.Popen([*COMMAND, *flags], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = str(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    return line


def test_a_node_waits_for_a_postgresql_that_is_not_there(tmp_path: Path) -> None:
    line = first_message(f"postgresql://beanpole@/none?host={tmp_path}")
    assert "PostgreSQL is not reached" in line
    assert "see that PostgreSQL has a primary" in line


def test_a_node_says_that_postgresql_is_reached_again(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"), cluster.node("b") as b:
        cluster.disconnect("b")
        wait_until(lambda: b.events("PostgreSQL is reached again"), "b goes on")
        assert [line["event"] for line in b.events() if "PostgreSQL is" in str(line["event"])] == [
            "PostgreSQL is not reached",
            "PostgreSQL is reached again",
        ]


def test_nodes_and_verbs_say_what_to_do_when_postgresql_lets_them_not_in(cluster: Cluster) -> None:
    database = cluster.url.partition("?")[0].rpartition("/")[2]
    for right, wrong, advice in (
        ("beanpole@", "nobody@", "see the user in the URL, or make the role"),
        (f"/{database}?", "/nothing?", "see the database in the URL"),
    ):
        url = cluster.url.replace(right, wrong)
        assert advice in first_message(url)
        assert advice in Cluster(cluster.database, url)("status", code=4).err


@pytest.mark.parametrize("verb", [("serve", "--cluster", URL, "--node", "a"), ("cluster", "status", URL)])
def test_without_psycopg_the_command_that_installs_it_is_named(verb: tuple[str, ...]) -> None:
    program = "import sys; sys.modules['psycopg'] = None; from beanpole.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *verb], capture_output=True, text=True, check=False, timeout=STOP_TIMEOUT_S
    )
    assert done.returncode in {1, 5}
    assert "pip install 'beanpole[cluster]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_clients_wait_in_the_backlog_while_a_node_starts(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a:
        a.signal(signal.SIGTERM)
        a.wait_exit()
    with cluster.node("b") as b, b.connect(wait_accepted=False) as client:
        client.send(b"list-tube-used\r\n")
        assert answer(client) == b"USING default\r\n"


def test_the_limit_of_bodies_is_the_clusters(cluster: Cluster) -> None:
    cluster.init(SILENCE_MS, "-z", "10")
    with cluster.node("a") as node, cluster.node("b") as other:
        for each in (node, other):
            ask(each, (b"put 0 0 60 11\r\n01234567890\r\n", b"JOB_TOO_BIG\r\n"))
