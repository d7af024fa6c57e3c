"""What every verb that talks to a server shares: --url, --json, the exit codes, and one line for what goes wrong.

A verb is a function that is given a `Server` and an `Output` and, by name, what it has asked for::

    @verb("pause")
    @click.argument("tube", type=TUBE)
    def pause(server: Server, out: Output, tube: str) -> None:
        '''Keep the jobs of TUBE from being reserved.'''
        server.client().pause_tube(tube, 60)
        out.record({"tube": tube}, f"{tube} is paused")

What the client raises is left to go through: it becomes one line on standard error and an exit code. Results go to
standard output, all else to standard error. Nothing here imports rich before a table is drawn on a terminal.
"""

import functools
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
import click.shell_completion

from beanpole import limits
from beanpole.cli.errors import Failure, exit_code_of, forget_output, note, sentence_of
from beanpole.cli.quantities import notes_of
from beanpole.cli.wrapping import SETTINGS, json_text, wrapped
from beanpole.client import Address, Backoff, Client, Login
from beanpole.client.login import VARIABLES
from beanpole.errors import ArgumentError, BeanpoleError, ExitCode, MapError
from beanpole.protocol import wire
from beanpole.server.logs import visible

if TYPE_CHECKING:
    from beanpole.shards.map import ShardMap

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the server refused, or something else failed
  2    no such job or tube, or not in a state that allows this
  3    no job came in time
  4    the server can't be reached, or the connection broke
  5    wrong arguments
  130  interrupted (143: by SIGTERM)
"""

TUBE_PREFIX = "tube:"  # before a tube whose name is a number; no name has a colon
PROGRESS_FROM = 1_000  # jobs, or bytes: with fewer, a progress bar would be over at once

# --- Arguments --------------------------------------------------------------------------------------------------------


class Tube(click.ParamType[str]):
    """The name of a tube, also as ``tube:NAME``; a shell completes those that the server has."""

    name = "tube"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value).removeprefix(TUBE_PREFIX)
        try:
            wire.tube_name(name)
        except ArgumentError as error:
            self.fail(str(error), param, ctx)
        return name

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the names that begin so; none if the server does not answer at once."""
        try:
            url = Address.of(ctx.params.get("url") or Address.default())
            login = login_of(ctx, dict(ctx.params), url)
            with Client(url, backoff=Backoff(attempts=1), timeout=1, connect_timeout=1, login=login) as client:
                names = self.names(client)
        except (BeanpoleError, OSError, click.UsageError):
            return []
        return [click.shell_completion.CompletionItem(name) for name in names if name.startswith(incomplete)]

    def names(self, client: Client[Any]) -> Iterable[str]:
        """Return the names that there are."""
        return client.tubes()


TUBE = Tube()


class Url(click.ParamType[str]):
    """The address of a server."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(Address.of(value))
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


URL = Url()


class Number(click.ParamType[int]):
    """A whole number that is called something. Help does not show its limits, which hardly anybody meets."""

    def __init__(self, name: str, minimum: int, maximum: int) -> None:
        self.name = name
        self.minimum = minimum
        self.maximum = maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = self.minimum - 1
        if not self.minimum <= number <= self.maximum:
            self.fail(f"{value!r} is no whole number from {self.minimum} to {self.maximum}", param, ctx)
        return number


ID = Number("id", 1, 2**64 - 1)
COUNT = Number("n", 1, limits.PRI_MAX)
PRIORITY = Number("priority", 0, limits.PRI_MAX)


class Target(click.ParamType[int | str]):
    """A job or a tube: a number is the id of a job, everything else the name of a tube; ``tube:123`` is one as well."""

    name = "target"
    shell_complete = TUBE.shell_complete

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if not isinstance(value, str):
            return int(value)
        if value.isascii() and value.isdigit():
            return ID(value, param, ctx)
        return TUBE.convert(value, param, ctx)


TARGET = Target()


# --- The server -------------------------------------------------------------------------------------------------------


class Server:
    """The server that --url names, or the servers of a map that are seen as one."""

    def __init__(self, url: str, map_file: Path | None = None, login: Login | None = None) -> None:
        self.address = Address.from_url(url)
        self.map_file = map_file
        self.login = login or Login()
        self._clients: list[Client[bytes]] = []

    def __str__(self) -> str:
        return str(self.map_file or self.address)

    def client(
        self,
        tube: str = "default",
        *,
        watch: Iterable[str] = (),
        backoff: Backoff | None = None,
        url: str | None = None,
    ) -> Client[bytes]:
        """Return a new client that uses a tube and watches it, or others; it is closed when the verb ends.

        Bodies are bytes, and there is one attempt to connect: nobody wants to wait at a terminal. `url`
        is another server, to which the same is shown if it has TLS.
        """
        address = self.address if url is None else Address.from_url(url)
        login = self.login if url is None or address.tls else Login()
        watched, once = tuple(watch) or tube, Backoff(attempts=1)
        client = Client(address, None, tube, watched, backoff=backoff or once, patience=0, login=login)
        self._clients.append(client)
        return client

    def with_advice(self, said: str, code: int) -> str:
        """Return a sentence with what else may be the cause: TLS alone is spoken there, or a user lacks a right."""
        return "; ".join(each for each in (said, self._advice(code)) if each)

    def _advice(self, code: int) -> str:
        if code == ExitCode.NO_SERVER and self.address.port == limits.TLS_PORT_DEFAULT and not self.address.tls:
            return f"port {limits.TLS_PORT_DEFAULT} is that of TLS: {replace(self.address, tls=True, others=())}"
        if code == ExitCode.NOT_FOUND and self._clients:
            client = self._clients[0]
            with suppress(BeanpoleError, OSError):
                if "list-rights" in client.features() and not (found := client.rights()).admin:
                    return f"what the user {found.user} has no right to is not found either (see beanpole rights)"
        return ""

    def close(self) -> None:
        for client in self._clients:
            client.close()


# --- Output -----------------------------------------------------------------------------------------------------------


def body_fields(body: bytes) -> dict[str, str]:
    """Return a body for JSON: as ``body`` if it is UTF-8, else as ``body_base64``."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        import base64

        return {"body_base64": base64.b64encode(body).decode()}


def write_all(file: IO[bytes], data: bytes) -> None:
    """Write bytes; with PYTHONUNBUFFERED, standard output may take only some of them and say so by their number."""
    view = memoryview(data)
    while view:
        written = file.write(view)
        if not written:
            raise BlockingIOError("the output takes nothing now")
        view = view[written:]


class Output:
    """Standard output: JSON lines, a table on a terminal, or lines with tabs for other programs."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def write(self, data: bytes) -> None:
        write_all(sys.stdout.buffer, data)

    def line(self, text: str) -> None:
        """Write a line; what is no text (a lone surrogate) is escaped as JSON does it."""
        self.write(f"{text}\n".encode(errors="backslashreplace"))

    def prose(self, text: str) -> None:
        """Write sentences, wrapped where a terminal shows them."""
        self.line(wrapped(text))

    def record(self, record: Mapping[str, object], text: str) -> None:
        """Write a result: the record as a line of JSON, or the text for people."""
        self.line(json_text(record) if self.as_json else text)

    def table(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows, of which the columns are shown; with --json a line for each row, with all that is in it."""
        if self.as_json:
            for row in rows:
                self.record(row, "")
        elif sys.stdout.isatty():
            draw(columns, list(rows))
        else:
            rest = iter(rows)
            first = list(islice(rest, 1))  # what goes wrong at once has no heading
            self.line("\t".join(columns))
            for row in chain(first, rest):
                self.line("\t".join(cell(row[column]) for column in columns))

    def flush(self) -> None:
        """Hand over everything that was written; raises BrokenPipeError if nobody reads it."""
        sys.stdout.flush()


def jobs_text(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def cell(value: object) -> str:
    """Return a value as it stands in a table: on one line, and without what could move a terminal's cursor."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(str(value), kept="")


def first_line(text: str) -> str:
    return cell(text.strip().partition("\n")[0])


def indented(word: str, text: str) -> list[str]:
    """Return a reason as lines: the text of an error has several."""
    first, *more = text.splitlines() or [""]
    return [f"  - {word}: {cell(first)}", *(f"    {cell(each)}" for each in more)]


def draw(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Draw a table on the terminal, numbers on the right."""
    on_the_right = [bool(rows) and all(type(row[column]) in {int, float} for row in rows) for column in columns]
    cells = [[cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, each)) for each in zip(columns, *cells, strict=True)]
    fits = sum(widths) + len(widths) - 1 <= shutil.get_terminal_size().columns
    if not fits or not all(each.isascii() for row in cells for each in row):
        draw_folded(columns, on_the_right, cells)
        return
    form = " ".join(f"{{:{'>' if right else '<'}{width}}}" for right, width in zip(on_the_right, widths, strict=True))
    click.secho(form.format(*columns).rstrip(), bold=True)
    lines = [form.format(*row).rstrip() for row in cells]
    click.echo("\n".join(["─" * (sum(widths) + len(widths) - 1), *lines]))


def draw_folded(columns: Sequence[str], on_the_right: Sequence[bool], cells: Sequence[Sequence[str]]) -> None:
    """Draw a table that is too wide for the terminal, or has letters that may be as wide as two.

    That takes a third of a millisecond for each row, and rich takes time to import.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    for column, right in zip(columns, on_the_right, strict=True):
        table.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Show the progress of something large if standard error is a terminal; gives a function that advances it."""
    if not sys.stderr.isatty() or total is None or total < PROGRESS_FROM:
        yield lambda _: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield bar.update


# --- Verbs ------------------------------------------------------------------------------------------------------------


SERVER_URL: dict[str, Any] = {
    "type": URL,
    "default": str(Address()),
    "show_default": True,
    "envvar": "BEANPOLE_URL",
    "show_envvar": True,
    "help": "The server: HOST, HOST:PORT, beanstalk[s]://HOST:PORT or unix:PATH; of a cluster HOST,HOST.",
}
"""What an option is that names a server."""

MAP: dict[str, Any] = {
    "type": click.Path(path_type=Path),
    "metavar": "FILE",
    "envvar": "BEANPOLE_MAP",
    "show_envvar": True,
    "help": "In place of --url: a map of shards, which are seen as one.",
}
"""What an option is that names a map."""


LOGIN = {
    "ca": "With beanstalks://: trust the CAs in FILE, and not those of the system.",
    "cert": "With beanstalks://: show the certificate in FILE.",
    "cert_key": "The private key of --cert, if it is in another FILE.",
    "token_file": "Show the token in FILE, which others may not read, over TLS or to a Unix socket.",
}
"""The options that say how to connect to a server, and how they are read."""


def login_options() -> list[click.Parameter]:
    return [
        click.Option(
            [f"--{name.replace('_', '-')}", f"login_{name}"],
            type=click.Path(),
            metavar="FILE",
            envvar=VARIABLES[name],
            show_envvar=True,
            help=text,
        )
        for name, text in LOGIN.items()
    ]


def on_line(ctx: click.Context, *names: str) -> bool:
    """Whether the command line has one of some options."""
    return any(ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in names)


def login_of(ctx: click.Context, given: dict[str, Any], *addresses: Address, url: str = "url") -> Login:
    """Take what the options of a login say out of all that were given, for a server, or for several.

    Variables are for the server that a variable names, and for any with TLS: they are ignored where the command line
    names another, by the option `url`, and of maps without TLS. Raises UsageError: nothing of it can be used there.
    """
    found = {name: given.pop(f"login_{name}", None) for name in LOGIN}
    address = next((each for each in addresses if each.tls), addresses[0])
    if not address.tls and (not url or on_line(ctx, url)):
        found = {name: value for name, value in found.items() if on_line(ctx, f"login_{name}")}
    try:
        return Login(**found).check(address)
    except ArgumentError as error:
        raise click.UsageError(str(error)) from error


def map_of(file: Path) -> "ShardMap":
    """Read a map. Raises UsageError: it is wrong."""
    from beanpole.shards.file import load

    try:
        return load(file)
    except MapError as error:
        raise click.UsageError(str(error)) from error


def nodes_of(map_file: Path) -> list[Address]:
    """Return the addresses of the shards of a map, each with those of all its nodes. Raises UsageError."""
    return [each.nodes for each in map_of(map_file).shards.values()]


def map_to_see(map_file: Path | None) -> Path | None:
    """Return the map to go by: none, if the variable names one and the command line a server.

    Raises UsageError: the command line names both.
    """
    ctx = click.get_current_context()
    if map_file is None or not on_line(ctx, "url", "urls"):
        return map_file
    if on_line(ctx, "map_file"):
        raise click.UsageError("--url and --map exclude each other")
    return None


def verb(
    name: str, example: str = "", *, maps: bool = False
) -> Callable[[Callable[..., ExitCode | None]], click.Command]:
    """Make a verb of a function: see above. It returns the exit code if it is not OK.

    The example, lines that are not to be wrapped, stands below the options in its help. `maps`: there is --map, too.
    """

    def decorate(function: Callable[..., ExitCode | None]) -> click.Command:
        @functools.wraps(function)
        def run(*, url: str, as_json: bool, map_file: Path | None = None, **given: Any) -> ExitCode:
            if None in {sys.stdin, sys.stdout, sys.stderr}:
                raise Failure("standard input, output and error must be open; /dev/null will do")
            file = map_to_see(map_file)
            addresses = nodes_of(file) if file else [Address.from_url(url)]
            login = login_of(click.get_current_context(), given, *addresses, url="" if file else "url")
            server, out = Server(url, file, login), Output(as_json=as_json)
            try:
                code = function(server, out, **given) or ExitCode.OK
                out.flush()
                if why := server.with_advice("", code):
                    note(why)
            except BrokenPipeError:
                forget_output()
                return ExitCode.FAILED
            except (BeanpoleError, OSError) as error:
                forget_output()
                code = exit_code_of(error)
                raise Failure(server.with_advice(sentence_of(error), code), code) from error
            except Failure as failure:
                forget_output()
                said = server.with_advice(failure.message, failure.exit_code)
                raise Failure(said, failure.exit_code) from failure
            finally:
                server.close()
            return code

        command = click.command(name, context_settings=SETTINGS)(run)
        command.epilog = (f"\b\n{example}\n\n" if example else "") + notes_of(command) + EXIT_CODES
        command.params += [
            click.Option(["--url"], **SERVER_URL),
            *([click.Option(["--map", "map_file"], **MAP)] if maps else []),
            *login_options(),
            click.Option(["--json", "as_json"], is_flag=True, help="Write JSON, one object a line."),
        ]
        return command

    return decorate


def file_verb(group: click.Group, name: str) -> Callable[[Callable[..., ExitCode | None]], click.Command]:
    """Make a verb of a group of a function that goes by files: as `verb`, but there is no --url, and no Server."""

    def decorate(function: Callable[..., ExitCode | None]) -> click.Command:
        @functools.wraps(function)
        def run(*, as_json: bool, **given: Any) -> ExitCode:
            out = Output(as_json=as_json)
            try:
                code = function(out, **given)
                out.flush()
            except BrokenPipeError:
                forget_output()
                return ExitCode.FAILED
            except (BeanpoleError, OSError) as error:
                raise Failure(sentence_of(error), exit_code_of(error)) from error
            return code or ExitCode.OK

        as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON, one object a line.")
        return group.command(name, context_settings=SETTINGS, epilog=EXIT_CODES)(as_json(run))

    return decorate
