"""What tests need to start processes and to wait for them."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

import pytest

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0  # how long a process may take until it answers; generous, as test machines are slow and shared
STOP_TIMEOUT_S = 60.0
"""How long a process may take to stop after SIGTERM before it is killed: only one that hangs takes as long."""

REPLY_TIMEOUT_S = 60.0  # how long a test waits for a reply that must come
POLL_S = 0.005  # how often a condition is looked at while a test waits for it
VARIABLES = ("BEANPOLE_", "NOTIFY_SOCKET")
"""Variables of the test's own environment that would change what a service does."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a process: ours, without what sets it up or says how large a terminal is, and `more`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(VARIABLES)}
    for size in ("COLUMNS", "LINES"):  # pytest's workers have these
        kept.pop(size, None)
    return kept | dict(more or {})


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = REPLY_TIMEOUT_S) -> None:
    """Returns as soon as a condition holds; fails when it does not in time."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, f"waited {timeout_s} s in vain: {what}"
        time.sleep(POLL_S)


def missing_peer(name: str) -> NoReturn:
    """Ends the test that needs a program that is not installed: a skip for a user, a failure in CI."""
    reason = f"{name} is not installed"
    if os.environ.get("CI"):
        pytest.fail(reason + ", and CI must skip nothing")
    pytest.skip(reason)


@contextmanager
def kept_port() -> Iterator[int]:
    """A port that nobody else gets as long as the block runs, whether or not a server of the test listens there.

    It is bound and does not listen: a program that wants just any port does not get it, one that names it does.
    """
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, 0))
        yield int(bound.getsockname()[1])


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process, which is killed if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
