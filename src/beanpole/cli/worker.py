"""``beanpole worker``: run the worker of a program; with --reload, again and again while it is written."""

import functools
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beanpole.cli import limits
from beanpole.cli.common import SETTINGS, URL
from beanpole.cli.serve import log_format as log_format_option
from beanpole.errors import ArgumentError, ExitCode
from beanpole.worker.errors import WorkerStuckError
from beanpole.worker.limits import METRICS_PORT_DEFAULT

if TYPE_CHECKING:
    from beanpole.client import Address
    from beanpole.worker import Worker

EPILOG = """\b
Exit codes:
  0    stopped by SIGTERM or SIGINT
  1    the module can't be imported
  5    wrong arguments: there is no such module or worker, or it has no handler
  75   handlers that hang occupied all slots for too long: start it again
  111  the address of --metrics can't be listened on
  130  a second SIGINT ended it at once (143: SIGTERM)
"""


@click.command("worker", epilog=EPILOG, context_settings=SETTINGS)
@click.argument("target", metavar="MODULE:WORKER")
@click.option(
    "--url",
    type=URL,
    envvar="BEANPOLE_URL",
    show_envvar=True,
    help="The server: beanstalk://HOST:PORT, unix:PATH; of a cluster HOST:PORT,HOST:PORT.  "
    "[default: the one that the worker was made with]",
)
@click.option("-c", "--concurrency", type=click.IntRange(1), help="Jobs at a time.  [default: the worker's own]")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    help="Seconds that running handlers have after SIGTERM.  [default: the worker's own]",
)
@click.option(
    "--metrics",
    metavar="ADDR",
    help="Serve /metrics for Prometheus, and /health, over HTTP on HOST, HOST:PORT or unix:PATH; port 0 chooses one, "
    f"which the log says.  [default port: {METRICS_PORT_DEFAULT}]",
)
@click.option("-V", "--verbose", is_flag=True, help="Log each job that was done, too.")
@click.option("--reload", is_flag=True, help="Start again when a .py file below the working directory changes.")
@log_format_option
def worker(
    target: str,
    url: "Address | None",
    concurrency: int | None,
    grace: float | None,
    metrics: str | None,
    *,
    verbose: bool,
    reload: bool,
    log_format: str,
) -> int:
    """Run a worker: the beanpole.Worker that is called WORKER in a Python module, also one in the working directory.

    SIGTERM and SIGINT stop it: it takes no more jobs, running handlers have --grace seconds, then their jobs are
    released. A second signal ends it at once.
    """
    if reload:
        given = {"--url": url, "--concurrency": concurrency, "--grace": grace, "--metrics": metrics}
        given["--log-format"] = log_format
        flags = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        return run_again_and_again([target, *flags, *(["--verbose"] if verbose else [])])
    from beanpole.server import listener
    from beanpole.server.logs import open_logger

    found = load(target)
    found.address = url or found.address
    found.concurrency = concurrency or found.concurrency
    found.grace_s = found.grace_s if grace is None else grace
    found.log_done = verbose or found.log_done
    found.logger = found.logger or open_logger(log_format)
    files = {}
    if metrics is not None:
        found.metrics_sockets = listener.open_all((metrics,), METRICS_PORT_DEFAULT)
        files = listener.socket_files(list(found.metrics_sockets))
        for each in found.metrics_sockets:
            each.listen()
        addresses = ["http:" + listener.address_text(each).removeprefix("tcp:") for each in found.metrics_sockets]
        found.logger.info("metrics are served", addresses=addresses)
    try:
        found.run()
    except ArgumentError as error:
        raise click.BadParameter(f"{target}: {error}") from error
    except WorkerStuckError as error:
        click.echo(f"beanpole worker: {error}", err=True)
        return ExitCode.WORKER_STUCK
    finally:
        listener.remove_socket_files(files)
    return ExitCode.OK


# --- The worker -------------------------------------------------------------------------------------------------------


def load(target: str) -> "Worker":
    """Import the worker that is meant by ``module:name``.

    Raises click.UsageError: there is none. Raises click.ClickException: the module can't be imported; the traceback is
    on standard error.
    """
    name, _, attribute = target.partition(":")
    if not name or not attribute or name.endswith(".py"):
        raise click.BadParameter(f"MODULE:WORKER is meant, for example tasks:worker, not {target!r}")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - a string, as sys.path has them
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - see above
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            where = f"in {Path.cwd()} nor on Python's path"
            raise click.BadParameter(f"there is no module {error.name!r}, neither {where}") from error
        raise broken(name) from error
    except (Exception, SystemExit) as error:
        raise broken(name) from error
    from beanpole.worker import Worker

    try:
        found = functools.reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        workers = [each for each, value in vars(module).items() if isinstance(value, Worker)]
        there_are = f"its workers are {', '.join(workers)}" if workers else "and no worker at all"
        raise click.BadParameter(f"{name} has no {attribute!r}; {there_are}") from error
    if not isinstance(found, Worker):
        raise click.BadParameter(f"{target} is no beanpole.Worker, but of type {type(found).__name__}")
    return found


def broken(name: str) -> click.ClickException:
    """Show why a module can't be imported."""
    traceback.print_exc()
    return click.ClickException(f"{name} can't be imported, see above")


# --- While it is written ----------------------------------------------------------------------------------------------
# Times of files are compared twice a second, which needs nothing but the standard library. Each time it is a new
# process: what Python has imported can't be taken back.


def run_again_and_again(arguments: list[str]) -> int:
    """Run the worker in a process, and start another whenever a file changes; return the code of the last one.

    The process has a group of its own, so that a Ctrl-C of the terminal does not reach it twice.
    """
    child: subprocess.Popen[bytes] | None = None
    stopped = False

    def forward(number: int, _frame: object) -> None:
        nonlocal stopped
        if stopped and child is not None:
            child.send_signal(number)  # the second one ends it at once
        stopped = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    while True:
        times = dict(times_of_files())
        child = subprocess.Popen([sys.executable, "-m", "beanpole", "worker", *arguments], process_group=0)
        changed: set[Path] = set()
        while not stopped and not changed:
            time.sleep(limits.WORKER_RELOAD_MS / 1000)
            changed = {path for path, _ in set(times_of_files()) ^ set(times.items())}
        if not stopped:
            click.echo(f"beanpole worker: {min(changed)} has changed", err=True)
        child.terminate()
        code = child.wait()
        if stopped:
            return code if code >= 0 else 128 - code


def times_of_files() -> Iterator[tuple[Path, int]]:
    """Each .py file below the working directory, and when it was changed; not those of an environment."""
    for folder, folders, files in os.walk("."):
        folders[:] = [each for each in folders if each[0] != "." and not Path(folder, each, "pyvenv.cfg").exists()]
        for name in files:
            path = Path(folder, name)
            try:
                if path.suffix == ".py":
                    yield path, path.stat().st_mtime_ns
            except OSError:
                continue  # it is gone: that is a change
