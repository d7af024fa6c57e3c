"""Servers that hang, die and come back under a scraper, and consoles that end with their server."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests import forks
from tests.e2e.console.process import Console, Samples, console, url_of
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, STOP_TIMEOUT_S, beanpole_server


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


def test_a_console_that_was_handed_over_gives_way_waits_for_late_answers_and_ends_with_its_server() -> None:
    with beanpole_server() as server, ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((HOST, 0)))
        pairs = [stack.enter_context(server.connect()) for _ in range(4)]
        given = [listening.fileno(), *(each.fileno() for each in pairs)]
        command = [sys.executable, "-P", "-m", "beanpole", "console", "--name", "ours"]
        process = subprocess.Popen(
            [*command, "--handed-over", ",".join(map(str, given))],
            pass_fds=given,
            env=environment(),
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        served = Console(process, listening.getsockname()[1], Path(os.devnull))
        served.wait_for(lambda found: up(found, "ours"), "the server is there")
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, process.pid) >= 5, "the console gives way")
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "500"
        server.signal(signal.SIGSTOP)
        try:
            served.wait_for(lambda found: not up(found, "ours"), "the server is away")
        finally:
            server.signal(signal.SIGCONT)
        served.wait_for(lambda found: up(found, "ours"), "the server is back")
        assert process.poll() is None
        pairs[-1].shutdown(socket.SHUT_RDWR)
        assert process.wait(STOP_TIMEOUT_S) == 0
