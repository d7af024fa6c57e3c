"""`top` in a terminal, driven by keys: what it orders happens, and it leaves the terminal as it was."""

import os
import signal
from pathlib import Path

import beanpole as library
from tests.e2e.observe.command import Terminal, as_json, beanpole, terminal, url_of
from tests.e2e.process import serving, wait_until
from tests.servers import HOST, Server


def fill(server: Server) -> None:
    """Puts jobs: three of `mail` are buried, two of `reports` ready."""
    with library.Client((HOST, server.port), watch="mail") as client:
        client.put_many(["x"] * 3, tube="mail")
        for job in client.reserve_many(3):
            client.bury(job)
        client.put_many(["x"] * 2, tube="reports")


def counts(server: Server, tube: str) -> library.StatsTube:
    with library.Client((HOST, server.port)) as client:
        return client.stats_tube(tube)


def leave(shown: Terminal, mode: list[object]) -> None:
    """Quits, and looks whether the terminal is as it was."""
    shown.press("q")
    assert shown.wait_end() == 0
    assert shown.mode() == mode


def test_keys(server: Server) -> None:
    fill(server)
    with terminal("top", "--interval", "0.1", url=url_of(server)) as shown:
        mode = shown.mode_before
        shown.wait_for(r"\n mail +0 +0 +0 +3 ")
        assert shown.mode() != mode
        shown.press("/ma\r")
        shown.wait_for("1 tube with 'ma' of 3")
        shown.press("\r")
        shown.wait_for(r"BURIED +3 +first: job 1, 1 byte, ")
        shown.press("\r")
        shown.wait_for("1 tube with 'ma' of 3")
        shown.press("k2\r")
        shown.wait_for(r"mail +2 +0 +0 +1 ")
        shown.wait_for("kicked 2 of mail")
        assert counts(server, "mail").current_jobs_ready == 2
        shown.press("p90\r")
        shown.wait_for("mail is paused for 90 s")
        assert counts(server, "mail").pause == 90
        shown.press("u")
        shown.wait_for("mail is not paused")
        assert counts(server, "mail").pause == 0
        with library.Client((HOST, server.port)) as client:
            client.delete_many([1, 2, 3])
            wait_until(lambda: client.tubes() == ["default", "reports"], "nobody uses the tube any more")
        shown.press("?")
        shown.wait_for("any key: back")
        shown.press("\x1b")
        shown.wait_for("q quit")
        shown.press("\x1b")
        shown.wait_for("reports")
        shown.resize(12, 40)
        shown.wait_for(r"\n TUBE +READY▼ +RESERVED +\n")
        leave(shown, mode)


def test_order_that_fails_is_told(server: Server) -> None:
    with terminal("top", "--interval", "0.1", url=url_of(server)) as shown:
        mode = shown.mode_before
        shown.wait_for(r"\n default ")
        shown.press("p4294967296\r")
        shown.wait_for("default: .*4294967295")
        leave(shown, mode)


def test_server_that_comes_back(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with serving("-l", address, listen=False) as first, terminal("top", "--interval", "0.1", url=address) as shown:
        mode = shown.mode_before
        shown.wait_for("put +0/s")
        first.stop()
        shown.press(" ")
        shown.wait_for("lost the connection, trying again")
        with serving("-l", address, listen=False) as second:
            shown.press(" ")
            shown.wait_for(f"pid {second.pid} ")
            leave(shown, mode)


def test_signal_and_background_leave_the_terminal_in_order(beanpole: Server) -> None:
    with terminal("top", url=url_of(beanpole)) as shown:
        mode = shown.mode_before
        shown.wait_for(r"\n default ")
        shown.press("\x1a")
        _, status = os.waitpid(shown.popen.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert shown.mode() == mode
        shown.popen.send_signal(signal.SIGCONT)
        shown.wait_for(r"\n default ")
        wait_until(lambda: shown.mode() != mode, "it goes on: what was read may be older")
        shown.popen.terminate()
        assert shown.wait_end() == 0
        assert shown.mode() == mode


def test_quit_while_the_server_is_silent() -> None:
    with serving() as process:
        url = f"beanstalk://127.0.0.1:{process.port}"
        with terminal("top", "--interval", "0.1", url=url) as shown:
            mode = shown.mode_before
            shown.wait_for("q quit")
            with process.frozen():
                shown.press(" ?")
                shown.wait_for("any key: back")
                shown.press("x")
                leave(shown, mode)


def test_terminal_that_can_do_nothing(beanpole: Server) -> None:
    with terminal("top", "--interval", "0.1", url=url_of(beanpole), term="dumb") as shown:
        shown.wait_for(r"\n default ")
        assert shown.wait_end() == 0


def test_characters_that_a_terminal_lacks(beanpole: Server) -> None:
    with terminal("top", "--interval", "0.1", url=url_of(beanpole), encoding="latin-1") as shown:
        mode = shown.mode_before
        shown.wait_for(r"\n default ")
        leave(shown, mode)


def test_once_without_a_terminal(server: Server) -> None:
    fill(server)
    for flags in ([], ["--once"]):
        lines = beanpole("top", "--interval", "0.1", *flags, url=url_of(server)).splitlines()
        assert [line.split()[0] for line in lines[-3:]] == ["reports", "default", "mail"]


def test_json(server: Server) -> None:
    fill(server)
    said = as_json("top", "--interval", "0.1", url=url_of(server))
    assert said["server"]["current-jobs-buried"] == 3
    assert said["rates"]["put"] == 0
    tubes = {tube["name"]: tube for tube in said["tubes"]}
    assert set(tubes) == {"default", "mail", "reports"}
    assert tubes["reports"].get("oldest-ready", tubes["reports"]["next-job-age"]) >= 0
    assert said["waits"] is tubes["mail"]["waits"] is None
    assert tubes["mail"]["next-job-age"] is None
    assert tubes["mail"]["put-rate"] == 0


def test_nobody_there(tmp_path: Path) -> None:
    beanpole("top", url=f"unix:{tmp_path}/nobody", code=4)
    with terminal("top", url=f"unix:{tmp_path}/nobody") as shown:
        mode = shown.mode_before
        assert shown.wait_end() == 4
        assert shown.mode() == mode
