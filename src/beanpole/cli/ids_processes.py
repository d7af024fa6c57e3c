"""``beanpole ids serve`` with ``processes = N``: each process is a node of its own, and all have one UDP port.

The system gives each client's datagrams to one of them. One that ends is started again; if another process has its
node, all end, as a service without further processes does.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from beanpole.cli.processes import Lifeline, Manner, Processes
from beanpole.errors import ExitCode
from beanpole.ids import app
from beanpole.ids.rules.config import Config
from beanpole.worker import events
from beanpole.worker.log import Log

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
RELOADS = (signal.SIGHUP, signal.SIGUSR1)
HOPELESS = (ExitCode.USAGE, ExitCode.DATA_DIR_LOCKED)

ENDED = replace(events.PROCESS_ENDED, name="process ended")
FAILED = replace(events.PROCESS_FAILED, name="process failed")


def serve_with_processes(path: Path, config: Config, logger: Any, ready: Callable[[list[str]], None]) -> int:
    """Serve until a signal stops it; return the exit code. `ready` is called when all processes answer.

    Raises StartError: it can't start; here, or in the process that can't.
    """
    app.check_unused(config)

    def work(lifeline: Lifeline) -> int:
        def begin(addresses: list[str]) -> None:
            lifeline.begin(lambda: os.kill(os.getpid(), signal.SIGTERM), "\n".join(addresses))

        own = app.read(path, lifeline.number - 1)
        port = int(lifeline.first.partition("\n")[0].rpartition(":")[2] or 0)
        return int(app.serve(path, logger, begin, config=replace(own, shared_port=port)))

    def all_ready(said: list[str]) -> None:
        ready(list(dict.fromkeys("\n".join(said).split("\n"))))

    manner = Manner(STOPS, RELOADS, HOPELESS, all_ready, ENDED, FAILED)
    return Processes(config.processes, work, Log(logger), manner).run()
