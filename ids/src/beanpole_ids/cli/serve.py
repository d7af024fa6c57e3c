"""``beanpole-ids serve``: run a node, or several processes of it, and tell others when it answers."""

import contextlib
import os
import socket
from pathlib import Path

import click

from beanpole_ids.cli.output import FILE, SETTINGS
from beanpole_ids.errors import ExitCode, StartError


@click.command(context_settings=SETTINGS, short_help="Serve numbers over UDP, and over HTTP if that is configured.")
@click.argument("config", type=FILE)
@click.option("--ready-file", type=FILE, help="Write the bound address into this file when clients are answered.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "console", "json"]),
    default="auto",
    show_default=True,
    help="How messages on standard error look; auto is console on a terminal, and json elsewhere.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Go on with a copy or a backup of a database of SQLite. Only for the start that was refused.",
)
def serve(config: Path, ready_file: Path | None, log_format: str, adopt: bool) -> int:
    """Serve the rules of CONFIG, a TOML file or a JSON file of lxyfirst/id_server.

    SIGHUP and SIGUSR1 read the rules again, all or none. SIGTERM, SIGINT and SIGUSR2 stop, and give unused ranges back.
    """
    from beanpole_ids import app
    from beanpole_ids.logs import open_logger

    def ready(addresses: list[str]) -> None:
        if ready_file is not None:
            write_ready_file(ready_file, addresses)
        notify_systemd("READY=1")

    logger, found = open_logger(log_format), app.read(config)
    if adopt:
        app.adopt([found, *(app.read(config, process) for process in range(1, found.processes))])
    if found.processes > 1:
        from beanpole_ids.cli.processes import serve_with_processes

        return serve_with_processes(config, found, logger, ready)
    return int(app.serve(config, logger, ready, config=found))


def notify_systemd(state: str) -> None:
    """Send systemd a state (sd_notify(3)); nothing happens when it did not start us."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.connect("\0" + path[1:] if path.startswith("@") else path)
            notifier.send(state.encode())


def write_ready_file(path: Path, addresses: list[str]) -> None:
    """Write the addresses, a line each, in one step: whoever sees the file sees all of it.

    The unfinished file is a new one and no link is followed: it may stand in a directory that others can write to.

    Raises StartError: it can't be written.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("x") as file:
            file.write("".join(f"{address}\n" for address in addresses))
        unfinished.replace(path)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}", ExitCode.FAILED) from error
