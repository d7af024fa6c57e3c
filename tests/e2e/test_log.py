"""The log: JSON lines that a program can read, and none that a client can cause unless connections are wanted."""

import json
from datetime import datetime

from tests.e2e.process import serving, wait_until


def test_lines_are_json_with_timestamp_level_and_event() -> None:
    with serving() as process:
        addresses = process.addresses
        process.popen.terminate()
        assert process.wait_exit() == 0
        lines = [json.loads(line) for line in process.messages.splitlines()]
        assert [line["event"] for line in lines] == ["listening", "stopping", "stopped"]
        for line in lines:
            assert line["level"] == "info"
            assert datetime.fromisoformat(line["timestamp"]).utcoffset() is not None
        assert lines[0]["pid"] == process.pid
        assert lines[0]["addresses"] == addresses
        assert lines[1]["reason"] == "SIGTERM"
        assert lines[2]["exit_code"] == 0


def test_console_lines_are_for_people() -> None:
    with serving("--log-format", "console") as process:
        wait_until(lambda: process.messages.endswith("\n"), "the line that follows the ready file")
        (line,) = process.messages.splitlines()
        assert "listening" in line
        assert not line.startswith("{")


def test_no_client_writes_a_line() -> None:
    with serving() as process:
        wait_until(lambda: process.events("listening"), "the line that follows the ready file")
        before = process.messages
        for _ in range(20):
            with process.connect() as client:
                client.send(b"bogus\r\n" * 10 + b"x" * 1000 + b"\r\nput 0 0 1 1\r\nxyz\r\n")
            process.connect().reset()
        with process.connect() as client:
            client.ask(b"use a\r\n", b"USING a\r\n")
        assert process.messages == before


def test_verbose_log_names_clients() -> None:
    with serving("-V") as process:
        with process.connect() as client:
            host, port = client.socket.getsockname()
            (opened,) = process.events("connection opened")
            assert opened["peer"] == f"{host}:{port}"
            client.ask(b"quit\r\n", b"")
            assert client.rest() == b""
        wait_until(lambda: process.events("connection closed"), "the line about the end")
        (closed,) = process.events("connection closed")
        assert closed["fd"] == opened["fd"]
        with process.frozen():
            for _ in range(20):
                process.connect(wait_accepted=False).reset()
        with process.connect() as client:
            client.ask(b"use a\r\n", b"USING a\r\n")
        assert not process.events("failed"), "of clients that are gone already"
