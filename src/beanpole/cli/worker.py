"""``beanpole worker``: run the worker of a program; with --reload, again and again while it is written."""

import functools
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beanpole.cli.common import COUNT, URL, login_of, login_options, on_line
from beanpole.cli.quantities import DURATION, notes_of
from beanpole.cli.serve import log_format as log_format_option
from beanpole.cli.wrapping import SETTINGS
from beanpole.client import Address
from beanpole.client.login import VARIABLES
from beanpole.errors import (
    ArgumentError,
    ExitCode,
    ForbiddenError,
    NotAuthenticatedError,
    ScheduleError,
    StartError,
    UnsupportedError,
    WorkerStuckError,
)
from beanpole.protocol.limits import KEEP_S_MAX

if TYPE_CHECKING:
    from beanpole.process.crew import Lifeline
    from beanpole.worker import Worker

METRICS_PORT_DEFAULT = 11381  # the one behind the console's
WORKER_RELOAD_MS = 500  # between two checks of the files

EPILOG = """\b
Exit codes:
  0    stopped by SIGTERM or SIGINT
  1    the module can't be imported
  5    wrong arguments: there is no such module or worker, it has no handler,
       or the server does not take one of its schedules, or its login
  75   handlers that hang occupied all slots for too long: start it again
  111  the address of --metrics can't be listened on (while something else has
       it, the worker works, and tries again)
  130  a second SIGINT ended it at once (143: SIGTERM)
"""


@click.command("worker", context_settings=SETTINGS)
@click.argument("target", metavar="MODULE:WORKER")
@click.option(
    "--url",
    type=URL,
    help="The server: HOST, HOST:PORT, beanstalk[s]://HOST:PORT or unix:PATH; of a cluster HOST,HOST.  "
    ""
    "[default: the worker's own, or if it names none that of BEANPOLE_URL]",
)
@click.option(
    "-c",
    "--concurrency",
    type=COUNT,
    help="Jobs at a time, besides those of handlers with slots of their own.  [default: the worker's own]",
)
@click.option(
    "--grace",
    type=DURATION,
    help="How long running handlers have after SIGTERM.  [default: the worker's own]",
)
@click.option(
    "--keep",
    type=click.IntRange(0, KEEP_S_MAX),
    metavar="SECONDS",
    help="How long the server keeps jobs that are worked on when it is restarted; 0: it does not.  "
    "[default: the worker's own]",
)
@click.option(
    "--processes",
    type=COUNT,
    help="Run N processes, each with --concurrency jobs at a time, and start another for each that ends.",
)
@click.option(
    "--max-jobs",
    type=COUNT,
    help="Let another process take over after N jobs, for handlers that leak memory.  "
    "[default: the worker's own; implies --processes 1]",
)
@click.option(
    "--metrics",
    metavar="ADDR",
    help="Serve /metrics for Prometheus, and /health, over HTTP on HOST, HOST:PORT or unix:PATH; port 0 chooses one, "
    "which the log says. With --processes the second process has the next port, or PATH.2, and so on.  "
    f"[default port: {METRICS_PORT_DEFAULT}]",
)
@click.option("-V", "--verbose", is_flag=True, help="Log each job that was done, too.")
@click.option("--reload", is_flag=True, help="Start again when a .py file below the working directory changes.")
@log_format_option
def worker(
    target: str,
    processes: int | None,
    *,
    reload: bool,
    log_format: str,
    **settings: Any,
) -> int:
    """Run a worker: the beanpole.Worker that is called WORKER in a Python module, also one in the working directory.

    SIGTERM and SIGINT stop it: it takes no more jobs, running handlers have the time of --grace, then their jobs are
    released. A second signal ends it at once.
    """
    if reload:
        given = {"processes": processes, "log_format": log_format, **settings}
        return run_again_and_again([target, *flags_of(given)])
    if processes is None and settings["max_jobs"] is None:
        return work(target, log_format, **settings)
    from beanpole.process.child import name_of
    from beanpole.process.crew import Crew
    from beanpole.server.logs import open_logger
    from beanpole.worker import events
    from beanpole.worker.log import Log

    log = Log(open_logger(log_format))
    begin = functools.partial(work, target, log_format, **settings)

    def report(number: int, pid: int, code: int, in_s: float) -> None:
        how: dict[str, object] = {"code": code} if code >= 0 else {"signal": name_of(-code)}
        log.write(events.PROCESS_FAILED if code else events.PROCESS_ENDED, number=number, pid=pid, **how, in_s=in_s)

    return Crew(processes or 1, lambda lifeline: begin(lifeline=lifeline), report).run()


worker.params += login_options()
worker.epilog = notes_of(worker) + EPILOG


def flags_of(given: dict[str, Any]) -> list[str]:
    flags = []
    for name, value in given.items():
        if value is not None and value is not False:
            flags += [f"--{name.removeprefix('login_').replace('_', '-')}", *([] if value is True else [str(value)])]
    return flags


# --- The worker -------------------------------------------------------------------------------------------------------


def work(  # noqa: PLR0917 - by name, but the first two
    target: str,
    log_format: str,
    url: str | None,
    concurrency: int | None,
    grace: float | None,
    keep: int | None,
    max_jobs: int | None,
    metrics: str | None,
    verbose: bool,
    lifeline: "Lifeline | None" = None,
    **login: Any,
) -> int:
    from beanpole.cli.worker_log import show_log
    from beanpole.server import listener

    ctx = click.get_current_context()
    given = login_of(ctx, login, Address.of(url)) if url else None
    if given is not None:  # for clients of the handlers that name no server, also in their processes
        os.environ["BEANPOLE_URL"] = str(url)
        os.environ |= {variable: str(getattr(given, name) or "") for name, variable in VARIABLES.items()}
    found = load(target)
    found.address = Address.of(url) if url else found.address
    if given is None and on_line(ctx, *login):
        given = login_of(ctx, login, found.address)
    found.login = given or found.login
    found.concurrency = concurrency or found.concurrency
    found.grace_s = found.grace_s if grace is None else grace
    found.keep_s = found.keep_s if keep is None else keep
    found.max_jobs = max_jobs or found.max_jobs
    found.log_done = verbose or found.log_done
    if found.logger is None:
        show_log(log_format)
    number = lifeline.number if lifeline else 1
    if found.name and lifeline:
        found.name += f" {number}"  # else the process's id tells them apart
    files: dict[str, tuple[int, int]] = {}
    if metrics is not None:
        give_metrics(found, address_of(metrics, number), files)
    try:
        if lifeline and found.tubes:
            lifeline.begin(found.stop)
        found.run()
    except (ArgumentError, ForbiddenError, NotAuthenticatedError, ScheduleError, UnsupportedError) as error:
        raise click.UsageError(f"{target}: {error}") from error
    except WorkerStuckError as error:
        click.echo(f"beanpole worker: {error}", err=True)
        return ExitCode.WORKER_STUCK
    finally:
        listener.remove_socket_files(files)
    return ExitCode.OK


def give_metrics(found: "Worker", address: str, files: dict[str, tuple[int, int]]) -> None:
    """Have a worker serve its metrics there: at once, or if something else has the address, as soon as it is free.

    What there is to remove in the end is noted in `files`. Raises StartError: it can't be listened on.
    """
    from beanpole.server import listener
    from beanpole.worker import events
    from beanpole.worker.log import Log

    log = Log(found.logger)

    def listen() -> list[socket.socket]:
        sockets = listener.open_all((address,), METRICS_PORT_DEFAULT)
        files.update(listener.socket_files(sockets))
        for each in sockets:
            each.listen()
        addresses = ["http:" + listener.address_text(each).removeprefix("tcp:") for each in sockets]
        log.write(events.METRICS, addresses=addresses)
        return sockets

    try:
        found.metrics_sockets = listen()
    except StartError as error:
        if not listener.is_taken(error):
            raise
        log.write(events.METRICS_WAIT, error=str(error))
        found.metrics_open = listen


def address_of(metrics: str, number: int, port: int = METRICS_PORT_DEFAULT) -> str:
    """The address for the metrics of one of several processes: the next port, or a path with its number."""
    from beanpole.server import listener

    if number == 1:
        return metrics
    if metrics.startswith(listener.UNIX):
        return f"{metrics}.{number}"
    host, port = listener.split_address(metrics, port)
    port = port and port + number - 1
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def load(target: str) -> "Worker":
    """Import the worker that is meant by ``module:name``.

    Raises click.UsageError: there is none. Raises click.ClickException: the module can't be imported; the traceback is
    on standard error.
    """
    name, _, attribute = target.partition(":")
    if not name or not attribute or name.endswith(".py"):
        meant = name.removesuffix(".py").removeprefix("./").replace("/", ".") or "tasks"
        raise click.UsageError(f"MODULE:WORKER is meant, as {meant}:{attribute or 'worker'}, not {target!r}")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - a string, as sys.path has them
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - see above
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            where = f"in {Path.cwd()} nor on Python's path"
            raise click.UsageError(f"there is no module {error.name!r}, neither {where}") from error
        raise broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise broken(name, error) from error
    from beanpole.worker import Worker

    try:
        found = functools.reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        workers = [each for each, value in vars(module).items() if isinstance(value, Worker)]
        there_are = f"its workers are {', '.join(workers)}" if workers else "and no worker at all"
        raise click.UsageError(f"{name} has no {attribute!r}; {there_are}") from error
    if not isinstance(found, Worker):
        raise click.UsageError(f"{target} is no beanpole.Worker, but of type {type(found).__name__}")
    return found


def broken(name: str, error: BaseException) -> click.ClickException:
    """What ends the command; the traceback is printed from where the module's own code begins."""
    begin = error.__traceback__
    while begin and begin.tb_frame.f_globals.get("__name__", "").startswith((__name__, "importlib")):
        begin = begin.tb_next
    traceback.print_exception(type(error), error, begin)
    what = traceback.format_exception_only(error)[-1].strip()
    return click.ClickException(f"{name} can't be imported, see above: {what}")


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
            time.sleep(WORKER_RELOAD_MS / 1000)
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
