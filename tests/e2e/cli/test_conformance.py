"""`beanpole conformance`: green for servers that keep the protocol, red for those that don't."""

import contextlib
import re
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from beanpole import Client
from beanpole.cli import conformance as verb
from beanpole.conformance import kit
from beanpole.conformance.kit import Program, Result, Server
from beanpole.conformance.replies import Grade
from beanpole.conformance.script import SCRIPTS, Script, read_script
from beanpole.errors import ExitCode
from beanpole.testing import FakeServer
from tests.differential.side import split_replies
from tests.e2e.cli.conftest import Done, run
from tests.servers import HOST, REPLY_TIMEOUT_S, peer

Lie = Callable[[bytes], bytes]
"""What becomes of a reply."""


class Liar(socketserver.BaseRequestHandler):
    """A connection to a server that is good, of whose replies some are changed on the way."""

    server: "LyingServer"

    def handle(self) -> None:
        """Passes on what the client says, and changes what the server answers."""
        with socket.create_connection(self.server.behind) as good:
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

    def __init__(self, behind: tuple[str, int], lie: Lie) -> None:
        super().__init__((HOST, 0), Liar)
        self.behind = behind
        self.lie = lie


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


class Fakes(Program):
    """A program whose servers are in this process, where a start costs nothing; their replies may be changed."""

    def __init__(self, lie: Lie, body_bytes_max: int | None = None) -> None:
        self.lie = lie
        self.body_bytes_max = body_bytes_max

    def takes(self, setting: str) -> bool:
        del setting
        return True

    @contextlib.contextmanager
    def serve(self, script: Script) -> Iterator[Server]:
        """A fresh server behind a liar; no script that is played here drains it."""
        size = self.body_bytes_max or script.body_bytes_max
        fake = FakeServer(body_bytes_max=size, tubes_max=script.tubes_max)
        with fake, LyingServer(fake.address, self.lie) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
            thread.start()
            yield Server(0, server.server_address[1], REPLY_TIMEOUT_S)
            server.shutdown()
            thread.join(REPLY_TIMEOUT_S)


def played(lie: Lie, *names: str, patience_s: float = REPLY_TIMEOUT_S, extensions: bool = False) -> list[Result]:
    """What becomes of some scripts."""
    scripts = [read_script(path) for path in SCRIPTS if path.stem in names]
    return [kit.play(Fakes(lie), script, patience_s, like_beanstalkd=not extensions) for script in scripts]


def conformance(*words: str) -> Done:
    return run("conformance", *words)


OURS = (sys.executable, "-m", "beanpole", "serve", "-l", HOST, "-p", "{port}", "-z", "{max-job-size}")
BEANSTALKD = ("beanstalkd", "-l", HOST, "-p", "{port}")


def test_beanstalkd_keeps_the_protocol() -> None:
    peer("beanstalkd")
    done = conformance("--json", *BEANSTALKD, "-z", "{max-job-size}")
    assert done.code == 0, done.out.decode()
    results = {each["script"]: each for each in done.objects}
    assert results["put_while_draining"]["result"] == results["put_too_big"]["result"] == "passed"
    assert "put_job" not in results, "nobody asked for extensions"


@pytest.mark.long
def test_our_server_keeps_the_protocol_behind_fronts() -> None:
    done = conformance("--extensions", "--json", "--patience=30", *OURS, "--fronts", "2")
    assert done.code == 0, done.out.decode()


def test_our_server_takes_all_settings_and_lists_all_extensions() -> None:
    """That it answers as written is shown beside, by the same scripts."""
    ours = Program(OURS, 60)
    script = read_script(next(path for path in SCRIPTS if path.stem == "put_job_refused"), 65535)
    assert kit.play(ours, script, 60, like_beanstalkd=False).problem is None, "it drains"
    with ours.serve(script) as server, Client(f"{HOST}:{server.port}") as client:
        listed = client.features()
    scripts = [read_script(path) for path in SCRIPTS]
    assert not [each.path.stem for each in scripts if kit.features_of(each) - listed]
    reasons = {kit.skipped_for(each, ours, listed).partition(":")[0] for each in scripts}
    assert reasons == {"", "the clock must stand still", "wants a server with tubes-max 2"}


def test_what_a_server_does_not_list_is_skipped() -> None:
    script = read_script(next(path for path in SCRIPTS if path.stem == "put_job"))
    why = kit.skipped_for(script, Fakes(lambda reply: reply), frozenset())
    assert why == "not in list-extensions: put-job, put-job.delay, put-job.pri, put-job.ttr, put-job.tube"


def test_beanstalkd_1_13_keeps_the_protocol() -> None:
    """Without extensions beanstalkd is the measure, and its releases write names of tubes in two ways."""
    names = "stats_tube_keys", "stats_job_keys"
    [*_, found] = played(quoted, *names)
    assert found.problem is None
    [*_, found] = played(quoted, *names, extensions=True)
    assert found.problem is not None
    assert found.problem.grade is Grade.WORDS


def test_a_wrong_reply_is_found_and_shown() -> None:
    results = played(replaced(b"BURIED\r\n", b"RELEASED\r\n"), "bury_not_found")
    lines = verb.report(results)
    text = "\n".join(lines)
    assert "FAILED  bury: bury_not_found" in text
    assert "  grade     words: the same is said in other words" in text
    assert "  sent      bury " in text
    assert "  expected  BURIED\\r\\n\n  received  RELEASED\\r\\n\n" in text
    assert re.fullmatch(r"  \d+ words: the same .*", lines[-1])


def test_what_is_said_to_a_body_that_is_too_big_is_examined() -> None:
    """By the limit that the server names, whatever it is."""
    fakes = Fakes(replaced(b"JOB_TOO_BIG\r\n", b"BAD_FORMAT\r\n"), 1000)
    script = read_script(next(path for path in SCRIPTS if path.stem == "put_too_big"), 1000)
    with fakes.serve(script) as server, Client(f"{HOST}:{server.port}") as client:
        assert kit.body_bytes_max_of(client) == 1000
    problem = kit.play(fakes, script, REPLY_TIMEOUT_S, like_beanstalkd=False).problem
    assert problem is not None
    assert problem.grade is Grade.WORDS


def test_the_worst_is_named_first() -> None:
    """A reply that is missing, beside others that say it in other words."""
    word = replaced(b"BURIED\r\n", b"RELEASED\r\n")
    lie: Lie = lambda each: b"" if each.startswith(b"TOUCHED") else word(each)  # noqa: E731
    lines = verb.report(played(lie, "bury_not_found", "touch_many", patience_s=0.3))
    grades = [line.split()[1].rstrip(":") for line in lines if line.startswith("  grade ")]
    assert grades[0] == "lost"
    assert grades == sorted(grades)
    assert [line.split()[1] for line in lines[-2:]] == ["lost:", "words:"]


def test_a_server_that_does_not_start() -> None:
    done = conformance(sys.executable, "-c", "import sys; sys.exit('no room for {port}')")
    assert done.code == ExitCode.NO_SERVER
    assert re.search(r"ended with exit code 1: no room for \d+$", done.err.strip())
