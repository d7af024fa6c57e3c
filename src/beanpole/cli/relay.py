"""``beanpole relay``: take jobs from a table of any database to a server. `beanpole.relay` does the work."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from beanpole.cli.common import SERVER_URL, Output, login_of, login_options
from beanpole.cli.errors import Failure, forget_output
from beanpole.cli.inspect import now_ns
from beanpole.cli.serve import log_format as log_format_option
from beanpole.cli.wrapping import SETTINGS
from beanpole.client import Address
from beanpole.errors import ExitCode, StartError
from beanpole.observe.units import plural

if TYPE_CHECKING:
    from beanpole.relay.outbox import Outbox

EXIT_CODES = """\b
Exit codes:
  0   done; stopped by SIGTERM or SIGINT
  1   something failed
  2   the driver, the table or a right is missing, another relay has the file of
      SQLite, or the server is too old
  4   the database can't be reached (init and status; run tries again)
  5   wrong arguments
"""

table = click.option(
    "--table",
    metavar="[SCHEMA.]NAME",
    default="beanpole_outbox",
    show_default=True,
    help="What the table is called.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON.")


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES)
def relay() -> None:
    """Take jobs that applications insert into a table, in their own transactions, to a server.

    URL is that of the database: postgresql://USER@HOST/DATABASE, mariadb://…, mysql://… or sqlite:///PATH, or the
    variable BEANPOLE_OUTBOX_URL, where nobody sees its password. A cluster can do it without: see cluster init --inbox.
    """


def verb(name: str) -> Callable[[Callable[..., ExitCode | None]], click.Command]:
    def decorate(function: Callable[..., ExitCode | None]) -> click.Command:
        command = relay.command(name, context_settings=SETTINGS, epilog=EXIT_CODES)(table(function))
        command.params.insert(0, click.Argument(["url"], envvar="BEANPOLE_OUTBOX_URL", metavar="URL"))
        return command

    return decorate


@contextmanager
def opened(url: str, name: str, *, is_new: bool = False) -> "Iterator[Outbox]":
    """The outbox of a database. Raises Failure for what is wrong with that, or with the arguments."""
    try:
        import sqlalchemy as sa

        from beanpole.relay.outbox import Outbox, is_refusal, said
    except ImportError as error:
        text = f"SQLAlchemy is missing; install it with: pip install 'beanpole[relay]' ({error})"
        raise Failure(text, ExitCode.NOT_FOUND) from error
    try:
        outbox = Outbox(url, name, is_new=is_new)
        try:
            yield outbox
        finally:
            outbox.close()
    except StartError as error:
        if error.exit_code == ExitCode.USAGE:
            raise click.UsageError(str(error)) from error
        raise Failure(str(error), error.exit_code) from error
    except sa.exc.DBAPIError as error:
        if is_refusal(error):
            raise Failure(said(error), ExitCode.NOT_FOUND) from error
        raise Failure(f"the database can't be reached: {said(error)}", ExitCode.NO_SERVER) from error


@verb("init")
@as_json
def init(url: str, table: str, *, as_json: bool) -> None:
    """Make the table. One that is there stays as it is."""
    with opened(url, table, is_new=True) as outbox:
        existed, name = outbox.make(), outbox.sql_name
    done = "was there already" if existed else "is made"
    text = f"Table {table} {done}. Jobs are put by: insert into {name} (tube, body) values ('mail', '…')"  # noqa: S608
    Output(as_json=as_json).record({"table": table, "existed": existed}, text)


@verb("run")
@click.option(
    "--to",
    "--url",
    "to",
    **SERVER_URL,
)
@log_format_option
def run(url: str, table: str, to: str, log_format: str, **given: Any) -> None:
    """Put the rows of the table as jobs, and delete them, until SIGTERM or SIGINT.

    Of PostgreSQL, MariaDB and MySQL as many relays may take rows of a table as you like, in SQLite one.
    """
    from beanpole.server.logs import open_logger

    logger, server = open_logger(log_format), Address.of(to)
    login = login_of(click.get_current_context(), given, server, url="to")
    with opened(url, table) as outbox:
        from beanpole.relay.relay import Relay

        worker = Relay(outbox, server, logger.log, time.sleep, now_ns, login)

        def stop(number: int, _: FrameType | None) -> None:
            worker.stops = True
            signal.signal(number, signal.SIG_DFL)  # the second one ends it at once

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        logger.info("relay started", database=outbox.shown, table=table, server=to)
        worker.run()
        logger.info("relay stopped", done=worker.done)


run.params += login_options()


@verb("status")
@as_json
def status(url: str, table: str, *, as_json: bool) -> None:
    """Show how many rows wait, how old the oldest is, and which were set aside, with the reason.

    A row that was set aside goes on when its column error is null again.
    """
    out = Output(as_json=as_json)
    with opened(url, table) as outbox:
        found = outbox.status()
    try:
        if as_json:
            record = {"rows": found.rows, "oldest": round(found.oldest_s, 3), "aside": found.aside}
            out.record({**record, "reasons": found.reasons}, "")
            return
        age = f", the oldest {found.oldest_s:.1f} s old" if found.rows else ""
        out.prose(f"{plural(found.rows, 'row')} waiting{age}; {found.aside} set aside")
        if found.reasons:
            out.table(("number", "tube", "error"), found.reasons)
        out.flush()
    except BrokenPipeError:
        forget_output()
