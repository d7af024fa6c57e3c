"""Runs a program with other limits of the ID service: with more patience, or with less.

The first argument is what differs, as JSON; the second is a module or the path of a script, whose arguments follow.
"""

import json
import runpy
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from beanpole_ids import limits

COMMAND = [sys.executable, "-m", "tests.e2e.patient"]
"""What starts a program so; its arguments follow."""

PATIENT = {
    "LATE_MS": 120_000,
    "STORE_TIMEOUT_S": 60,
    "STORE_LOCK_WAIT_S": 10,
    "AUDIT_STOP_S": 60,
    "HTTP_HEAD_MS": 120_000,
    "HTTP_TIMEOUT_MS": 120_000,
}
"""Limits that a busy machine doesn't reach. A service whose turn comes more than a second late drops what was asked,
which is right, and a test that asks once would wait in vain."""

IMPATIENT = PATIENT | {"STORE_TIMEOUT_S": limits.STORE_TIMEOUT_S}
"""The same, but a database that hangs is given up as it is by any service."""

BLIND = PATIENT | {"STORE_BEAT_S": 3_600}
"""The same, but it does not see by itself that its node is lost."""


def prepare(changes: Mapping[str, float] = PATIENT) -> None:
    """Set limits before anything reads them."""
    for name, value in changes.items():
        assert hasattr(limits, name), name
        setattr(limits, name, value)


def start(changes: Mapping[str, float], *command: str, **options: Any) -> "subprocess.Popen[bytes]":  # noqa: ANN401
    """Start a program; it is forked from a process that has imported everything if that has the same limits."""
    from tests import forks  # noqa: PLC0415 - the program itself needs none

    popen: type[subprocess.Popen[bytes]] = forks.Popen if changes == PATIENT else subprocess.Popen
    return popen([*COMMAND, json.dumps(dict(changes)), *command], **options)


def main() -> None:
    """Set limits, and run the program."""
    _, changes, program, *arguments = sys.argv
    prepare(json.loads(changes))
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
