"""Sessions that return to a server: one that was killed or stopped, and one whose socket was closed by the client."""

import signal
from pathlib import Path

import pytest

from tests.e2e.process import serving

TOKEN = b"0123456789abcdef" * 2
AGAIN = b"keep-session 30 %b\r\n" % TOKEN


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_job_waits_for_its_holder_over_the_end_of_a_server(tmp_path: Path, end: signal.Signals) -> None:
    with serving("-b", str(tmp_path)) as process, process.connect() as holder:
        holder.ask(AGAIN, b"KEPT 0\r\n")
        holder.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
        holder.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        holder.ask(b"put 0 0 60 1\r\ny\r\n", b"INSERTED 2\r\n")  # its reply waits for all that was written before
        process.signal(end)
        process.wait_exit()
    with serving("-b", str(tmp_path)) as process, process.connect() as holder, process.connect() as other:
        other.ask(b"reserve\r\n", b"RESERVED 2 1\r\ny\r\n")
        other.ask(b"reserve-with-timeout 0\r\n", b"TIMED_OUT\r\n")
        holder.ask(AGAIN, b"KEPT 1 1\r\n")
        holder.ask(b"delete 1\r\n", b"DELETED\r\n")


def test_job_of_a_client_that_ends_waits_for_nobody() -> None:
    with serving() as process, process.connect() as other:
        with process.connect() as holder:
            holder.ask(AGAIN, b"KEPT 0\r\n")
            holder.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
            holder.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        other.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")


def test_half_open_connection_is_closed_when_its_client_returns() -> None:
    with serving() as process, process.connect() as before, process.connect() as holder:
        before.ask(AGAIN, b"KEPT 0\r\n")
        before.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
        before.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        before.send(b"reserve\r\n")
        holder.ask(AGAIN, b"KEPT 1 1\r\n")
        assert before.rest() == b""
