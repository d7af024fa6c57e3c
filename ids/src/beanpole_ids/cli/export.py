"""``beanpole-ids export-counters``: the way back to lxyfirst/id_server."""

import time
from pathlib import Path

import click

from beanpole_ids.cli.output import FILE, SETTINGS
from beanpole_ids.config import load
from beanpole_ids.errors import ExitCode, RuleError, StartError
from beanpole_ids.original.table import script
from beanpole_ids.storage.store import Store


@click.command(
    "export-counters", context_settings=SETTINGS, short_help="Print SQL with which id_server goes on above our numbers."
)
@click.argument("config", type=FILE)
@click.option("--step", type=click.IntRange(1), help="The id_step of id_server. The default is that of CONFIG.")
@click.option(
    "--force", is_flag=True, help="Also while a node runs, or if counters can't go back; what is printed may be old."
)
def export_counters(config: Path, step: int | None, force: bool) -> int:
    """Print SQL for the table `counter` of lxyfirst/id_server, from the database of CONFIG.

    id_server then goes on above every number that any node has given. Stop all nodes first.
    """
    try:
        found = load(config)
    except RuleError as error:
        raise StartError(str(error), ExitCode.USAGE) from error
    marks = Store(found.database, found.offset, found.step).saved(even_of_running=force)
    text, refused = script(marks, found.rules, step or found.step, int(time.time()))
    for key, reason in refused.items():
        names = " ".join(each.decode("utf-8", "backslashreplace") for each in key)
        click.echo(f"beanpole-ids: {names}: {reason}", err=True)
    if refused and not force:
        raise StartError(
            f"{len(refused)} of {len(marks)} counters can't go back, and id_server would repeat their numbers; "
            "--force prints the others",
            ExitCode.FAILED,
        )
    click.echo(text, nl=False)
    return ExitCode.OK
