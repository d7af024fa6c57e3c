"""`beanpole bench`: our server beside beanstalkd in one run, or one load at a server that runs already.

Only options are here; what they start is in `beanpole.bench.run`, imported when it is needed.
"""

from pathlib import Path

import click


@click.command("bench", short_help="Measure this server beside beanstalkd, or drive a load at a running one.")
@click.option("--only", multiple=True, metavar="ROW", help="Only rows whose name is, or begins with, ROW. May repeat.")
@click.option("--table", "tables", multiple=True, type=click.Choice(["speed", "durable", "grid"]), help="May repeat.")
@click.option("--full", is_flag=True, help="All tables: the asked ones and the whole grid. Takes most of an hour.")
@click.option("--quick", is_flag=True, help="One short round of each row: under a minute, for a first look.")
@click.option("--list", "list_rows", is_flag=True, help="Name all rows and end.")
@click.option("--rounds", type=click.IntRange(1, 100), help="Rounds, of which the median counts (3).")
@click.option("--seconds", type=click.FloatRange(0.05, 600), help="Length of each measured load (2).")
@click.option("--ours", default="", metavar="COMMAND", help="Our server; {ready_file} or {host} {port} are filled in.")
@click.option("--theirs", default="", metavar="COMMAND", help="The other server, likewise.")
@click.option(
    "--data-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Where logs are written."
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Every sample, to this file."
)
@click.option("--markdown", is_flag=True, help="Tables in Markdown.")
@click.option("--check", is_flag=True, help="End with 1 when a row does not meet what is asked.")
@click.option("--address", metavar="HOST:PORT", help="Only drive a load at this server (also unix:PATH).")
@click.option(
    "--pid", default=0, type=click.IntRange(min=0), help="With --address: its process, to measure its CPU too."
)
@click.option("--connections", default=50, type=click.IntRange(1, 100_000), show_default=True, help="With --address.")
@click.option("--in-flight", default=16, type=click.IntRange(1, 10_000), show_default=True, help="With --address.")
@click.option("--body-bytes", default=100, type=click.IntRange(0, 1 << 30), show_default=True, help="With --address.")
@click.option("--tubes", default=0, type=click.IntRange(min=0), help="With --address; 0 is one for each connection.")
@click.option(
    "--held", default=0, type=click.IntRange(min=0), help="With --address: jobs each connection keeps reserved."
)
@click.option(
    "--programme",
    default="prd",
    type=click.Choice(["prd", "p", "pd", "pr"]),
    show_default=True,
    help="With --address: batches in turn; p put, r reserve, d delete.",
)
@click.pass_context
def bench(context: click.Context, /, **given: object) -> None:
    """Measure this server beside beanstalkd (commands/s, latency, CPU, memory), or a load at one that runs."""
    from beanpole.bench import run
    from beanpole.bench.plan import Group

    load = {key: given.pop(key) for key in ("connections", "in_flight", "body_bytes", "tubes", "held", "programme")}
    address, pid = given.pop("address"), given.pop("pid")
    if given.pop("list_rows"):
        click.echo(run.names())
    elif address:
        context.exit(run.drive(str(address), Group(**load), given["seconds"] or run.SECONDS, pid))  # type: ignore[arg-type]
    else:
        full = given.pop("full")
        given["tables"] = tuple(run.TABLES) if full else given["tables"] or ("speed",)
        context.exit(run.main(run.Options(**given)))  # type: ignore[arg-type]
