"""``beanpole-ids serve``: run a node, or several processes of it."""

from pathlib import Path

import click

from beanpole_ids.cli.output import FILE, SETTINGS


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
    from beanpole_ids.process import notify_systemd, write_ready_file

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
