"""``beanpole console``: pages, an API, metrics and checks of any servers over HTTP; ``serve --http`` starts it too."""

import contextlib
import ipaddress
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beanpole import limits as shared_limits
from beanpole.cli.common import MAP, URL, login_of, login_options, map_of, map_to_see, nodes_of
from beanpole.cli.serve import check_host_names, check_listen, check_token_file, log_format, option
from beanpole.cli.wrapping import SETTINGS
from beanpole.client import Address
from beanpole.console import limits
from beanpole.errors import AccessError, ExitCode, StartError

if TYPE_CHECKING:
    from beanpole.access.watch import AccessFiles
    from beanpole.console.settings import Pairs, Settings, Source
    from beanpole.server.logs import Logger

FILE: dict[str, Any] = {"type": click.Path(path_type=Path), "metavar": "FILE"}

# How a console that a server has started gives way to it: its niceness, and what the kernel adds to its score when it
# must end a process for want of memory.
NICE = 5
OOM_SCORE_ADJ = 500

KEY_BYTES = 32  # of the key with which cookies of users are signed

WHOLE = "map"  # the name under which all shards of a map are one server

EXIT_CODES = """\b
Exit codes:
  0    stopped by SIGTERM or SIGINT, or with the server that started it
  1    something is not installed, or a fault; the last line of the log says which
  5    wrong arguments
  111  an address can't be resolved or bound
"""


class NamedUrl(click.ParamType[tuple[str, str]]):
    """``NAME=URL``, or a URL alone, which is its own name."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, url = str(value).partition("=")
        if not equals or any(each in name for each in ":/"):
            name, url = "", str(value)
        url = URL(url, param, ctx)
        address = Address.from_url(url)
        name = name or str(address).removeprefix(address.scheme)
        if len(name) > limits.NAME_CHARS_MAX or not name.isprintable():
            self.fail(f"a name has {limits.NAME_CHARS_MAX} characters at most, all of them printable", param, ctx)
        return name, url


@click.command(epilog=EXIT_CODES, context_settings=SETTINGS)
@option(
    "--url",
    "urls",
    type=NamedUrl(),
    multiple=True,
    metavar="[NAME=]URL",
    help="A server: beanstalk[s]://HOST:PORT, HOST:PORT or unix:PATH; may be repeated.  [default: beanstalk://127.0.0.1:11300]",
)
@click.option("--map", "map_file", **MAP)
@option(
    "--http",
    metavar="ADDR",
    default=f"127.0.0.1:{shared_limits.HTTP_PORT_DEFAULT}",
    show_default=True,
    callback=lambda ctx, parameter, value: check_listen(ctx, parameter, (value,))[0],
    help="Serve HTTP on ADDR: HOST:PORT, [IPV6]:PORT or unix:PATH.",
)
@option(
    "--http-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    callback=check_host_names,
    help="A name of this console that requests may use, besides localhost and addresses; may be repeated.",
)
@option(
    "--http-token-file",
    "token_file",
    type=click.Path(),
    callback=check_token_file,
    help="A file with a line `NAME TOKEN` for each who may change things; without it pages are read-only.",
)
@option("--access", **FILE, help="Let the users of this file log in, each with rights of its own.")
@option("--tokens", **FILE, help="With --access: the tokens by which they do, from `beanpole token add`.")
@option("--http-hide-bodies", "hide_bodies", is_flag=True, help="Show, search and give out no body of a job.")
@option(
    "--metrics-tubes",
    "tube_patterns",
    multiple=True,
    metavar="PATTERN",
    help="Tubes that have metrics of their own, as in mail-*; may be repeated.  [default: the first by name]",
)
@option("--legacy-metrics", "legacy", is_flag=True, help="Serve the names of messagebird/beanstalkd_exporter as well.")
@option("--ready-file", type=click.Path(dir_okay=False), help="Write the bound address into this file when it serves.")
@log_format
@click.option("--handed-over", hidden=True, help="Descriptors: of the listening socket, and of four pairs.")
@click.option("--name", default="", hidden=True, help="With --handed-over: the name of the server.")
@click.option(
    "--key", type=int, hidden=True, help="With --handed-over and --access: a descriptor from which to read it."
)
def console(urls: tuple[tuple[str, str], ...], map_file: Path | None, **given: Any) -> int:
    """Serve pages for people, an API, metrics for Prometheus and health checks of servers, in a process of its own.

    / is for browsers; /metrics has everything; /health, /ready and /leader answer 200 or 503. With ?server=NAME they
    are about one server. Plain beanstalkd has fewer metrics.
    """
    from beanpole.server import early

    if name := early.missing():
        raise StartError(f"{name} is not installed: pip install 'beanpole[console]'", ExitCode.FAILED)
    import asyncio

    from beanpole.cli.inspect import now_ns, unix_s
    from beanpole.console.run import run
    from beanpole.console.settings import Clock, Settings, Source
    from beanpole.server import listener
    from beanpole.server.logs import open_logger
    from beanpole.server.process import write_ready_file

    handed_over, pairs, users = given["handed_over"], None, users_of(given)
    map_file = None if handed_over else map_to_see(map_file)
    if map_file is not None:
        sources = sources_of_map(map_file)
        login = login_of(click.get_current_context(), given, *nodes_of(map_file), url="")
    else:
        sources = (Source(given["name"], None),) if handed_over else sources_of(urls, given)
    if handed_over:
        listening, pairs = taken(handed_over)
        listeners, files = [listening], {}
        give_way()
    else:
        listeners = listener.open_all((given["http"],), shared_limits.HTTP_PORT_DEFAULT)
        files = listener.socket_files(listeners)
    settings = Settings(
        sources,
        pairs,
        given["hosts"],
        given["tube_patterns"],
        Path(given["token_file"]) if given["token_file"] else None,
        users,
        secrets.token_bytes(KEY_BYTES) if given["key"] is None else read_key(given["key"]),
        is_reached=any(map(is_reached, listeners)),
        hide_bodies=given["hide_bodies"],
        legacy=given["legacy"],
    )
    logger = open_logger(given["log_format"])
    warn_of_old_tokens(settings, logger)
    addresses = ["http:" + listener.address_text(each).removeprefix("tcp:") for each in listeners]

    def ready() -> None:
        if given["ready_file"] is not None:
            write_ready_file(Path(given["ready_file"]), addresses)
        logger.info("console listening", addresses=addresses, pid=os.getpid(), servers=[each.name for each in sources])

    async def main() -> None:
        async with contextlib.AsyncExitStack() as opened:
            whole = settings.sources
            if map_file is not None:
                from beanpole.cli.mapped import own_router

                address, _ = await opened.enter_async_context(own_router(map_file, login, logger))
                whole = (replace(sources[0], address=address), *sources[1:])
            await run(replace(settings, sources=whole), listeners, logger, Clock(now_ns, unix_s), ready)

    try:
        asyncio.run(main())
    finally:
        listener.remove_socket_files(files)
    logger.info("console stopped")
    return ExitCode.OK


console.params += login_options()


def is_reached(listening: socket.socket) -> bool:
    """Return whether other machines can connect to a socket."""
    if listening.family == socket.AF_UNIX:
        return False
    return not ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def users_of(given: Mapping[str, Any]) -> "AccessFiles | None":
    """Return the users who may log in; None: there are none. Raises StartError: a file is wrong, or one lacks."""
    from beanpole.access.watch import AccessFiles

    access, tokens = given["access"], given["tokens"]
    if access is None:
        if tokens is not None:
            raise StartError("--tokens needs the file of users: give --access as well", ExitCode.USAGE)
        return None
    if tokens is None and not given["token_file"]:
        raise StartError("--access: users log in here by tokens: give --tokens as well", ExitCode.USAGE)
    try:
        return AccessFiles(access, tokens)
    except AccessError as error:
        raise StartError(str(error), ExitCode.USAGE) from error


def warn_of_old_tokens(settings: "Settings", logger: "Logger") -> None:
    """Say that there are tokens that no right limits."""
    if settings.users is not None and settings.token_file is not None:
        effect = "whoever has a token of it may do everything, whatever the file of users says"
        advice = "give them tokens of users: beanpole token add"
        logger.warning("old tokens", file=str(settings.token_file), effect=effect, advice=advice)


def read_key(fd: int) -> bytes:
    """Return the key with which the server lets cookies be signed."""
    with open(fd, "rb") as pipe:
        return pipe.read(KEY_BYTES)


def sources_of(urls: tuple[tuple[str, str], ...], given: dict[str, Any]) -> "tuple[Source, ...]":
    """Return the servers, each with a name of its own, and what the options say how the console shows who it is."""
    from beanpole.console.settings import Source

    named = urls or (NamedUrl()(str(Address())),)
    names = [name for name, _ in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.UsageError(f"two servers have the name {twice!r}; give them others: --url NAME=URL")
    found = [Source(name, Address.from_url(url)) for name, url in named]
    ctx, encrypted = click.get_current_context(), [each for each in found if each.address and each.address.tls]
    # Beside a server with TLS there may be plain ones, which are shown nothing.
    to = encrypted or found
    logins = {each.name: login_of(ctx, dict(given), each.address, url="urls") for each in to if each.address}
    return tuple(replace(each, login=logins.get(each.name)) for each in found)


def sources_of_map(file: Path) -> "tuple[Source, ...]":
    """Return what a map has as one, whose address is not known yet, and its shards beside it.

    Raises UsageError: the map is wrong.
    """
    from beanpole.console.settings import Source
    from beanpole.shards.map import Places

    newest = map_of(file)
    if WHOLE in newest.shards:
        raise click.UsageError(f"{file}: a shard has the name {WHOLE}, as all of them have together here")
    shards = [Source(each.name, each.nodes, is_shard=True) for each in newest.shards.values()]
    return Source(WHOLE, None, Places(newest)), *shards


def taken(descriptors: str) -> "tuple[socket.socket, Pairs]":
    """Return the sockets that a server has handed over; nobody else has their descriptors."""
    from beanpole.console.settings import Pairs

    listening, sampling, *others = (socket.socket(fileno=int(each)) for each in descriptors.split(","))
    for each in (sampling, *others):
        each.setblocking(False)
    return listening, Pairs(sampling, tuple(others))


def give_way() -> None:
    """Let the server have the processor and the memory first."""
    os.nice(NICE)
    try:
        Path("/proc/self/oom_score_adj").write_text(f"{OOM_SCORE_ADJ}\n")
    except OSError:
        return  # not every container lets it be written
