"""Servers that hang, die and come back under a scraper, and consoles that end with their server."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests import forks
from tests.e2e.console.process import Console, Samples, console, url_of
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, STOP_TIMEOUT_S, Server, beanpole_server


def up(found: Samples, name: str) -> float:
    return found["beanpole_up", frozenset({("server", name)})]


def named(found: Samples, name: str) -> set[str]:
    return {metric for metric, labels in found if ("server", name) in labels}


def test_a_server_that_hangs_is_down_until_it_answers_again() -> None:
    with (
        beanpole_server() as server,
        beanpole_server() as other,
        console("--url", url_of(server, "one"), "--url", url_of(other, "two"), patient=False) as served,
    ):
        served.wait_for(lambda found: up(found, "one"), "the server is there")
        server.signal(signal.SIGSTOP)
        try:
            served.wait_for(lambda found: not up(found, "one"), "the server is away")
            found = served.scrape_once()
            assert named(found, "one") == {"beanpole_up"}
            assert served.get("/health").status == 503
            assert "one: away: no answer within 1 s" in served.get("/health?server=one").text
            # The other may be slow on a busy machine, too.
            served.wait_for(lambda found: up(found, "two") and not up(found, "one"), "the other server is there")
            wait_until(lambda: served.get("/health?server=two").status == 200, "the other server is well")
        finally:
            server.signal(signal.SIGCONT)
        served.wait_for(lambda found: up(found, "one"), "the server is back")
        wait_until(lambda: served.get("/health").status == 200, "both are well")
        assert "no answer within 1 s" in served.messages.read_text()
        assert "server back" in served.messages.read_text()


def test_a_server_that_is_killed_comes_back_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    command = [sys.executable, "-m", "beanpole", "serve", "-l", f"unix:{path}"]
    with console("--url", f"one=unix:{path}") as served:
        assert up(served.scrape_once(), "one") == 0
        for _ in range(2):
            process = forks.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
            try:
                served.wait_for(lambda found: up(found, "one"), "the server is there")
            finally:
                process.kill()
                process.wait()
            served.wait_for(lambda found: not up(found, "one"), "the server is gone")
        events = served.messages.read_text()
        assert events.count("server back") == 2
        assert events.count("server away") == 3


def handed_over(server: Server) -> tuple["subprocess.Popen[bytes]", int, list[socket.socket], list[socket.socket]]:
    """A console as a server starts it: with a socket that listens, and four connections into the server."""
    listening = socket.create_server((HOST, 0))
    pairs = [server.connect() for _ in range(4)]
    given = [listening.fileno(), *(each.fileno() for each in pairs)]
    command = [sys.executable, "-P", "-m", "beanpole", "console", "--name", "ours"]
    process = subprocess.Popen(
        [*command, "--handed-over", ",".join(map(str, given))],
        pass_fds=given,
        env=environment(),
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    return process, listening.getsockname()[1], [listening], pairs


def test_a_console_that_was_handed_over_gives_way_and_ends_with_any_of_its_pairs() -> None:
    with beanpole_server() as server:
        for ended in range(4):
            process, port, listening, pairs = handed_over(server)
            try:
                check_serving(process, port)
                for each in listening:
                    each.close()
                pairs[ended].shutdown(socket.SHUT_RDWR)
                assert process.wait(STOP_TIMEOUT_S) == 0
            finally:
                process.kill()
                process.wait()
                for each in (*listening, *pairs):
                    each.close()


def check_serving(process: "subprocess.Popen[bytes]", port: int) -> None:
    """The console serves the server by its name, and gives way to others."""
    served = Console(process, port, Path(os.devnull))
    served.wait_for(lambda found: up(found, "ours"), "the server is there")
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, process.pid) >= 5, "the console gives way")
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "500"


def test_a_late_answer_of_its_own_server_is_waited_for() -> None:
    with beanpole_server() as server:
        process, port, listening, pairs = handed_over(server)
        try:
            check_serving(process, port)
            server.signal(signal.SIGSTOP)
            served = Console(process, port, Path(os.devnull))
            try:
                served.wait_for(lambda found: not up(found, "ours"), "the server is away")
            finally:
                server.signal(signal.SIGCONT)
            served.wait_for(lambda found: up(found, "ours"), "the server is back")
            assert process.poll() is None
        finally:
            process.terminate()
            assert process.wait(STOP_TIMEOUT_S) == 0
            for each in (*listening, *pairs):
                each.close()
