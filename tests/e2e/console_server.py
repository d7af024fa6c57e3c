"""``beanpole serve`` with a fake in the console's place: `python -m tests.e2e.console_server serve -l ...`.

The fake does what the variable FAKE says; `real` is the console itself. What ends is started again at once, however
often.
"""

import os
import socket
import sys
from pathlib import Path

from beanpole.cli.serve import serve as verb
from beanpole.process.child import keep_to_ourselves
from beanpole.process.keeper import Pace
from beanpole.server import app
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings
from beanpole.server.supervisor import Supervisor, command_of
from tests.unit.server import fake_console


def make_console(settings: Settings, http: socket.socket, listeners: list[socket.socket], logger: Logger) -> Supervisor:
    """A supervisor of the fake, which is given the console's arguments behind its own."""
    keep_to_ourselves()
    assert listeners
    command = command_of(settings, "name")
    if os.environ["FAKE"] != "real":
        command = [sys.executable, "-I", "-S", fake_console.__file__, os.environ["FAKE"], *command[5:]]
    return Supervisor(http, command, logger, Pace(pause_s=0.01, pause_max_s=0.01, ends_max=10**6))


def main() -> None:
    """Serve with the flags of the command line."""
    given = verb.make_context("serve", sys.argv[2:]).params
    given["fsync_ms"] = None if given.pop("no_fsync") else given["fsync_ms"] or 0
    given["data_dir"] = given["data_dir"] and Path(given["data_dir"])
    sys.exit(app.serve(Settings(**given), make_console))


if __name__ == "__main__":
    main()
