"""The console that ``serve --http`` starts."""

import os
import signal

from tests.e2e.console.process import Console
from tests.e2e.process import Process, serving, wait_until
from tests.e2e.test_http import http_address, is_gone
from tests.servers import HOST


def console_of(process: Process) -> Console:
    return Console(process.popen, http_address(process)[1], process.folder / "messages")


def pid_of(process: Process, starts: int = 1) -> int:
    """The process that was started so many times, as soon as it serves."""
    wait_until(lambda: len(process.events("console listening")) >= starts, "the console serves")
    pid = process.events("console listening")[starts - 1]["pid"]
    assert isinstance(pid, int)
    return pid


def test_server_under_load_is_measured() -> None:
    with serving("--http", f"{HOST}:0") as process:
        served = console_of(process)
        name = f"{HOST}:{process.port}"
        with process.connect() as client:
            client.ask(b"put 0 0 60 1\r\nx\r\n" * 100, b"".join(b"INSERTED %d\r\n" % id for id in range(1, 101)))
            served.wait_for(
                lambda found: (
                    found.get(("beanpole_jobs_put_total", frozenset({("server", name), ("tube", "default")})), 0) > 99
                ),
                "a sample from after that",
            )
            found = served.scrape()
        assert found["beanpole_up", frozenset({("server", name)})] == 1
        assert found["beanpole_connections", frozenset({("server", name), ("kind", "open")})] == 1
        for path in ("/health", "/ready", "/leader"):
            wait_until(lambda path=path: served.get(path).status == 200, path)  # type: ignore[misc]
        process.signal(signal.SIGUSR1)
        wait_until(lambda: served.get("/ready").status == 503, "it drains")


def test_name_of_a_server_on_every_address_is_its_machine_s() -> None:
    with serving("--http", f"{HOST}:0", "-p", "0", listen=False) as process:
        name = f"{os.uname().nodename}:{process.port}"
        assert console_of(process).value("beanpole_up", server=name) == 1


def test_console_ends_with_its_server() -> None:
    for number, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with serving("--http", f"{HOST}:0") as process:
            pid = pid_of(process)
            process.signal(number)
            assert process.wait_exit() == code
            wait_until(lambda pid=pid: is_gone(pid), "the console ends")  # type: ignore[misc]
