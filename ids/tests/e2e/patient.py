"""Runs a program with other limits of the ID service: with more patience, or with less.

The first argument is what differs, as JSON; the second is a module or the path of a script, whose arguments follow.
"""

import json
import runpy
import sys
from pathlib import Path

from beanpole_ids import limits

COMMAND = [sys.executable, "-P", str(Path(__file__))]
"""What starts a program so; its arguments follow. Beside this file is one that has the name of a standard module."""

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


def main() -> None:
    """Set limits before anything reads them, and run the program."""
    _, changes, program, *arguments = sys.argv
    for name, value in json.loads(changes).items():
        assert hasattr(limits, name), name
        setattr(limits, name, value)
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
