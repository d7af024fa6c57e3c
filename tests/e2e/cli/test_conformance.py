"""`beanpole conformance`: green against servers that keep the protocol and are in use, red against one that doesn't."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole import Client
from beanpole.errors import TimedOutError
from tests.e2e.cli.conftest import Done, run
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, beanpole_server, beanstalkd_server


class Liar(socketserver.BaseRequestHandler):
    """A connection to a server that is good, of whose replies some are changed on the way."""

    server: "LyingServer"

    def handle(self) -> None:
        """Passes on what the client says, and changes what the server answers."""
        with self.server.behind.connect() as good:
            answers = threading.Thread(target=self.pass_on, args=(good, self.request), kwargs={"lies": True})
            answers.start()
            self.pass_on(self.request, good, lies=False)
            answers.join()

    def pass_on(self, source: socket.socket, target: socket.socket, *, lies: bool) -> None:
        """Passes on bytes until there are no more."""
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece.replace(b"BURIED\r\n", b"RELEASED\r\n") if lies else piece)
            target.shutdown(socket.SHUT_WR)


class LyingServer(socketserver.ThreadingTCPServer):
    """A server that answers a `bury` with the word of a `release`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behind: Server) -> None:
        super().__init__((HOST, 0), Liar)
        self.behind = behind


@pytest.fixture
def liar() -> Iterator[int]:
    with beanpole_server() as good, LyingServer(good) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(REPLY_TIMEOUT_S)


def conformance(port: int, *options: str) -> Done:
    """What the verb says of a server."""
    return run("conformance", f"{HOST}:{port}", *options)


def with_jobs_of_others(server: Server, *options: str) -> Done:
    """What the verb says of a server that is in use; makes sure that it is left as it was."""
    with Client(f"{HOST}:{server.port}") as client:
        ids = [client.put("mine", priority=0, ttr=1000) for _ in range(4)]
        held = client.reserve(timeout=0)
        client.bury(client.reserve(timeout=0))
        done = conformance(server.port, *options)
        assert client.tubes() == ["default"]
        client.touch(held)
        client.release(held)
        assert client.kick(10) == 1
        assert {client.reserve(timeout=0).id for _ in ids} == set(ids)
        with pytest.raises(TimedOutError):
            client.reserve(timeout=0)
    return done


@pytest.mark.parametrize("with_log", [False, True])
def test_our_server_keeps_the_protocol_and_all_extensions(tmp_path: Path, *, with_log: bool) -> None:
    with beanpole_server(*(["-b", str(tmp_path)] if with_log else [])) as server:
        done = with_jobs_of_others(server, "--extensions", "--json")
    assert done.code == 0, done.out.decode()
    results = {each["script"]: each for each in done.objects}
    assert results["put_job_key"]["result"] == results["reserve_by_priority_then_id"]["result"] == "passed"
    assert results["put_while_draining"]["why"].startswith("needs a server of its own")
    assert not [each for each in done.objects if each.get("why", "").startswith("not in list-extensions")]


def test_beanstalkd_keeps_the_protocol() -> None:
    with beanstalkd_server() as server:
        done = with_jobs_of_others(server)
    assert done.code == 0, done.out.decode()
    assert not [line for line in done.lines if line.startswith("put-job ")], "nobody asked for extensions"
    assert done.lines[-1].startswith("all ")


def test_what_beanstalkd_does_not_list_is_skipped() -> None:
    with beanstalkd_server() as server:
        done = conformance(server.port, "--extensions")
    assert "skipped put_job: not in list-extensions: put-job, put-job.delay" in done.out.decode()
    assert done.code == 1, "with extensions, docs/protocol.md is the measure"


def test_a_wrong_reply_is_found_and_shown(liar: int) -> None:
    done = conformance(liar)
    assert done.code == 1
    text = done.out.decode()
    assert "FAILED  bury: bury_not_found" in text
    assert "  sent      bury " in text
    assert "  expected  BURIED\\r\\n\n  received  RELEASED\\r\\n\n" in text
    assert next(line for line in done.lines if line.startswith("bury ")).endswith("2 failed")


def test_rules_that_make_it_fail_are_named() -> None:
    with beanpole_server() as server, Client(f"{HOST}:{server.port}") as client:
        client.set_rules("*", "backoff: 1000")
        done = conformance(server.port, "--patience", "0.3")
        assert done.code == 1
        assert "rules of * hold for the tubes of this check" in done.err
        client.set_rules("conformance-*", "")
        done = conformance(server.port, "--extensions")
        assert (done.code, done.err) == (0, ""), done.out.decode()


def test_a_server_that_is_not_there() -> None:
    assert conformance(1).code == 4
