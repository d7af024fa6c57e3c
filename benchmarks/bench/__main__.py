"""`make bench`: our server beside beanstalkd in one run, or one load at a server that runs already.

Only options are here; what they start is in `benchmarks.bench.run`.
"""

import sys
from pathlib import Path
from typing import Any

import click

from beanpole.cli.common import TUBE, URL
from beanpole.cli.errors import Failure, sentence_of
from beanpole.cli.quantities import Duration, Size, notes_of
from beanpole.client import Address, Backoff, Client
from beanpole.errors import CannotConnectError, ExitCode
from benchmarks.bench import guest, run
from benchmarks.bench.plan import Group
from benchmarks.bench.tables import TABLES

CYCLES = {"put": "p", "put+delete": "pd", "put+reserve": "pr", "put+reserve+delete": "prd"}
"""What each connection does again and again, as the programme of a load."""

FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
PROGRAM = click.Path(exists=True, dir_okay=False, executable=True, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
EPILOG = """\b
Exit codes:
  0    done
  1    not all could be measured, or with --check a row is not met
  2    nothing could be measured
  4    the server of --url can't be reached
  5    wrong arguments
  130  interrupted
"""

GUEST = {"connections", "in_flight", "body_bytes", "cycle", "tubes", "held", "tube_prefix", "pid"}
"""The parameters that mean something beside --url alone."""

EITHER = {"url", "seconds", "json_file"}
"""Those that mean something in any case; all others mean nothing beside --url."""

COMMANDS = "{ready_file} or {host} {port} are filled in."


@click.command("bench", short_help="Measure a server beside beanstalkd, or your own with --url.")
@click.option("--url", type=URL, help="Only measure this server: beanstalk://HOST:PORT, HOST:PORT or unix:PATH.")
@click.option(
    "--connections", default=50, type=click.IntRange(1, 100_000), metavar="N", show_default=True, help="With --url."
)
@click.option(
    "--in-flight",
    default=16,
    type=click.IntRange(1, 10_000),
    metavar="N",
    show_default=True,
    help="With --url: commands in a batch.",
)
@click.option("--body-bytes", default=100, type=Size(0, 1 << 30), show_default=True, help="With --url.")
@click.option(
    "--cycle",
    default="put+reserve+delete",
    type=click.Choice([*CYCLES]),
    show_default=True,
    help="With --url: what each connection does again and again.",
)
@click.option(
    "--tubes", default=0, type=click.IntRange(0), metavar="N", help="With --url: how many; 0: one for each connection."
)
@click.option(
    "--held", default=0, type=click.IntRange(0), metavar="N", help="With --url: jobs each connection keeps reserved."
)
@click.option("--tube-prefix", type=TUBE, help="With --url: what its tubes begin with.  [default: a new name]")
@click.option(
    "--pid", default=0, type=click.IntRange(0), metavar="N", help="With --url: its process, to measure its CPU too."
)
@click.option("--only", multiple=True, metavar="ROW", help="Only rows whose name is, or begins with, ROW. May repeat.")
@click.option("--table", "tables", multiple=True, type=click.Choice([*TABLES]), help="May repeat.")
@click.option("--full", is_flag=True, help="All tables: the asked ones and the whole grid. Takes most of an hour.")
@click.option("--quick", is_flag=True, help="One short round of each row: under a minute, for a first look.")
@click.option("--list", "list_rows", is_flag=True, help="Name all rows and end.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Rounds, each with fresh starts, of which the median counts (3).",
)
@click.option("--seconds", type=Duration(0.05, 600), help="Length of each measured load (2s).")
@click.option("--ours", default="", metavar="COMMAND", help=f"Our server; {COMMANDS}")
@click.option("--theirs", default="", metavar="COMMAND", help="The other server, likewise.")
@click.option(
    "--against",
    type=PROGRAM,
    metavar="PATH",
    help="A third server, measured in turn with the two: a program that takes beanstalkd's options, or the beanpole of "
    "another checkout.",
)
@click.option("--data-dir", type=FOLDER, help="Where logs are written.")
@click.option("--json", "json_file", type=FILE, help="Every sample, to this file; with --url, - is standard output.")
@click.option("--markdown", is_flag=True, help="Tables in Markdown.")
@click.option("--check", is_flag=True, help="End with 1 when a row does not meet what is asked.")
@click.pass_context
def bench(
    context: click.Context, /, url: str, cycle: str, tube_prefix: str | None, pid: int, *, full: bool, **given: Any
) -> None:
    """Measure this server beside beanstalkd (commands/s, latency, CPU, memory), or with --url one that runs already.

    The server of --url is measured in tubes of its own, which are empty and gone at the end; no other tube is touched.
    A cycle without a delete ends early when it has left a million jobs, or 256 MiB of them.
    """
    refuse_useless(context)
    load = {key: given.pop(key) for key in ("connections", "in_flight", "body_bytes", "tubes", "held")}
    if given.pop("list_rows"):
        click.echo(run.names())
    elif url:
        address = reachable(Address.from_url(url))
        group = Group(programme=CYCLES[cycle], name=tube_prefix or guest.new_name(), **load)
        where = address.path or (address.host, address.port)
        context.exit(run.drive(where, group, given["seconds"] or run.SECONDS, pid, given["json_file"]))
    else:
        given["tables"] = tuple(TABLES) if full else given["tables"] or ("speed",)
        context.exit(run.main(run.Options(**given)))


bench.epilog = notes_of(bench) + EPILOG


def refuse_useless(context: click.Context) -> None:
    """Refuse options that would have no effect: they ask for another thing than what would be done."""
    beside_url = context.params["url"] is not None
    for each in context.command.params:
        name = str(each.name)
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and name not in EITHER and (name in GUEST) is not beside_url:
            raise click.UsageError(f"{each.opts[0]} means nothing {'beside' if beside_url else 'without'} --url")


def reachable(address: Address) -> Address:
    """Return the address of a server that answers, or the first such of several.

    Raises Failure: none does.
    """
    try:
        with Client(address, backoff=Backoff(attempts=1)) as client:
            client.connect()
            return client.address
    except CannotConnectError as error:
        raise Failure(sentence_of(error).replace("--url or BEANPOLE_URL", "--url"), ExitCode.NO_SERVER) from error


if __name__ == "__main__":
    try:
        sys.exit(bench.main(prog_name="python -m benchmarks.bench", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(run.INTERRUPTED)
