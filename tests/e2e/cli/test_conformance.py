"""`beanpole conformance`: green against servers that keep the protocol and are in use, red against one that doesn't."""

import contextlib
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from beanpole import Client
from beanpole.conformance import kit
from beanpole.conformance.grade import Grade
from beanpole.errors import ExitCode, TimedOutError
from tests.differential.side import split_replies
from tests.e2e.cli.conftest import Done, run
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, beanpole_server, beanstalkd_server

Lie = Callable[[bytes], bytes]
"""What becomes of a reply."""


class Liar(socketserver.BaseRequestHandler):
    """A connection to a server that is good, of whose replies some are changed on the way."""

    server: "LyingServer"

    def handle(self) -> None:
        """Passes on what the client says, and changes what the server answers."""
        with self.server.behind.connect() as good:
            answers = threading.Thread(target=self.pass_on, args=(good, self.request, self.server.lie))
            answers.start()
            self.pass_on(self.request, good, None)
            answers.join()

    def pass_on(self, source: socket.socket, target: socket.socket, lie: Lie | None) -> None:
        """Passes on bytes until there are no more; replies one by one, as they are told."""
        rest = b""
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if lie is not None:
                    replies, rest = split_replies(rest + piece)
                    piece = b"".join(map(lie, replies))
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)


class LyingServer(socketserver.ThreadingTCPServer):
    """A server before a good one, of whose replies it tells some otherwise."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behind: Server, lie: Lie) -> None:
        super().__init__((HOST, 0), Liar)
        self.behind = behind
        self.lie = lie


@contextlib.contextmanager
def lying(lie: Lie, good: contextlib.AbstractContextManager[Server] | None = None) -> Iterator[int]:
    """The port of such a server."""
    with good or beanpole_server() as behind, LyingServer(behind, lie) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(REPLY_TIMEOUT_S)


def replaced(reply: bytes, other: bytes) -> Lie:
    """Another reply in place of one."""
    return lambda each: other if each == reply else each


def quoted(reply: bytes) -> bytes:
    """Statistics as beanstalkd 1.13 writes them: names of tubes in quotes, but not in lists."""
    head, _, body = reply.partition(b"\r\n")
    if not head.startswith(b"OK "):
        return reply
    body = re.sub(rb"^(name|tube): (.*)$", rb'\1: "\2"', body, flags=re.MULTILINE)
    return b"OK %d\r\n%b" % (len(body) - 2, body)


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


def test_beanstalkd_1_13_keeps_the_protocol() -> None:
    """Without extensions beanstalkd is the measure, and its releases write names of tubes in two ways."""
    with lying(quoted, beanstalkd_server()) as port:
        done = conformance(port)
    assert done.code == 0, done.out.decode()
    with lying(quoted) as port:
        done = conformance(port, "--extensions")
    assert done.code == ExitCode.OTHER_WORDS, "with extensions, docs/protocol.md is the measure"


def test_a_wrong_reply_is_found_and_shown() -> None:
    with lying(replaced(b"BURIED\r\n", b"RELEASED\r\n")) as port:
        done = conformance(port)
    assert done.code == ExitCode.OTHER_WORDS
    text = done.out.decode()
    assert "FAILED  bury: bury_not_found" in text
    assert "  grade     words: the same is said in other words" in text
    assert "  sent      bury " in text
    assert "  expected  BURIED\\r\\n\n  received  RELEASED\\r\\n\n" in text
    assert next(line for line in done.lines if line.startswith("bury ")).endswith("2 failed")
    assert re.fullmatch(r"  \d+ words: the same .*", done.lines[-1])


@pytest.mark.parametrize("body_bytes_max", [1000, 65535])
def test_what_is_said_to_a_body_that_is_too_big_is_looked_at(body_bytes_max: int) -> None:
    """By the limit that the server names, whatever it is."""
    lie = replaced(b"JOB_TOO_BIG\r\n", b"BAD_FORMAT\r\n")
    with beanpole_server("-z", str(body_bytes_max)) as good, lying(lie, nullcontext(good)) as port:
        assert kit.body_bytes_max_of(good.connect) == body_bytes_max
        scripts = [script for script in kit.scripts(body_bytes_max) if script.sends_largest]
        assert [script.path.stem for script in scripts] == [
            "put_refused_takes_no_id",
            "put_too_big",
            "put_too_big_trailing_garbage",
        ]
        for script in scripts:
            assert not kit.needs_of(script).own_server
            played = [
                kit.play(dial, script, 1, REPLY_TIMEOUT_S, like_beanstalkd=False).problem
                for dial in (good.connect, lambda: socket.create_connection((HOST, port)))
            ]
            assert played[0] is None, played[0]
            assert played[1] is not None
            assert played[1].grade is Grade.WORDS


def test_bodies_of_any_size_are_not_sent_to_a_server_that_takes_them() -> None:
    reasons = {kit.needs_of(each).own_server for each in kit.scripts(1 << 30) if each.sends_largest}
    assert reasons == {"bodies of more than 1048576 bytes would be sent"}


def test_the_worst_is_named_first() -> None:
    """A reply that is missing, beside others that say it in other words."""
    word = replaced(b"BURIED\r\n", b"RELEASED\r\n")
    with lying(lambda each: b"" if each == b"TOUCHED\r\n" else word(each)) as port:
        done = conformance(port, "--patience", "0.3")
    assert done.code == 1
    grades = [line.split()[1].rstrip(":") for line in done.lines if line.startswith("  grade ")]
    assert grades[0] == "lost"
    assert grades == sorted(grades)
    assert [line.split()[1] for line in done.lines[-2:]] == ["lost:", "words:"]


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
