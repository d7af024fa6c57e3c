"""``beanpole serve``: beanstalkd's flags, each with a long name, an environment variable and a key in a TOML file."""

import os
from typing import TYPE_CHECKING, Any

import click

import beanpole
from beanpole import limits
from beanpole.cli.quantities import SHARD, Duration, ShardNumbers, Size, notes_of
from beanpole.cli.wrapping import SETTINGS
from beanpole.server.options import OPTIONS, SEGMENT_BYTES_MIN, Option

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from beanpole.server.clusterroles import Passing

EXIT_CODES = """\b
Exit codes, the same as beanstalkd's:
  0    stopped by SIGTERM or SIGINT
  1    a fault; the last line of the log says which
  5    a wrong flag, variable or file
  7    in a cluster: what was confirmed is gone from PostgreSQL; a person must look
  10   another server uses the data directory
  33   the user does not exist, or the server may not become it
  111  an address can't be resolved or bound
"""


def read_config(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Take the defaults from a TOML file: one key for each long option."""
    if path is None:
        return
    import tomllib
    from pathlib import Path

    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise click.BadParameter(f"cannot read {path}: {error.strerror}", ctx, parameter) from error
    except ValueError as error:
        raise click.BadParameter(f"{path} is not TOML: {error}", ctx, parameter) from error
    known = {option_key(each): each for each in ctx.command.params if isinstance(each, click.Option)}
    for key in ("config", "help", "version", ""):
        known.pop(key, None)
    defaults = {}
    for key, value in found.items():
        if key not in known:
            allowed = ", ".join(sorted(known))
            raise click.BadParameter(f"{path} has an unknown key {key!r}; keys are {allowed}", ctx, parameter)
        defaults[str(known[key].name)] = config_value(ctx, known[key], path, key, value)
    ctx.default_map = defaults


def config_value(ctx: click.Context, option: click.Option, path: str, key: str, value: object) -> object:
    """Return the value of a key if its type is that of the option, else refuse it."""
    wanted: tuple[type, ...] = (str,)
    if option.is_flag:
        wanted = (bool,)
    elif option.count or isinstance(option.type, click.types.IntParamType):
        wanted = (int,)
    elif isinstance(option.type, Duration | Size | ShardNumbers):
        wanted = (int, str)
    values = value if option.multiple and isinstance(value, list) else [value]
    for each in values:
        if type(each) not in wanted:
            names = {bool: "true or false", int: "a whole number", str: "a string"}
            name = " or ".join(names[kind] for kind in wanted)
            raise click.BadParameter(f"{path}: {key} must be {name}, not {text_of(each)}", ctx)
        try:
            option.type.convert(each, option, ctx)
        except click.BadParameter as error:
            raise click.BadParameter(f"{path}: {key}: {error.message}", ctx) from error
    return values if option.multiple else value


def text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def option_key(option: click.Parameter) -> str:
    """Return the long name of an option, without its dashes; empty if it has none."""
    return next((each.removeprefix("--") for each in option.opts if each.startswith("--")), "")


class BodyLimit(Size):
    """The largest body; beanstalkd takes a negative number for a very large one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text.startswith("-") and text[1:].isdecimal():
            return -super().convert(text[1:], param, ctx)
        return super().convert(value, param, ctx)


def cap_body_bytes(_ctx: click.Context, _parameter: click.Parameter, value: int) -> int:
    """Cap the body limit as beanstalkd does, with a warning."""
    if 0 <= value <= limits.BODY_BYTES_MAX_CEILING:
        return value
    click.echo(f"beanpole serve: --body-bytes-max is capped at {limits.BODY_BYTES_MAX_CEILING}", err=True)
    return limits.BODY_BYTES_MAX_CEILING


def raise_segment_bytes(_ctx: click.Context, _parameter: click.Parameter, value: int) -> int:
    """Raise the size of segments to what makes sense, with a warning."""
    if value < SEGMENT_BYTES_MIN:
        click.echo(f"beanpole serve: --segment-bytes is raised to {SEGMENT_BYTES_MIN}", err=True)
    return max(value, SEGMENT_BYTES_MIN)


def check_listen(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from beanpole.server import listener, places

    for address in value:
        try:
            (places.parse if listener.says_more(address) else listener.check_address)(address)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, parameter) from error
    return value


ONLY_WITH_HTTP = {"http_host", "http_token_file", "http_hide_bodies", "metrics_tubes", "legacy_metrics"}

# Variables that may be set where a server is started, for verbs that are clients.
OF_OTHER_VERBS = {
    *("BEANPOLE_URL", "BEANPOLE_IDS_URL", "BEANPOLE_IDS_HTTP_URL", "BEANPOLE_OUTBOX_URL", "BEANPOLE_MAP"),
    *("BEANPOLE_CA", "BEANPOLE_CERT", "BEANPOLE_CERT_KEY", "BEANPOLE_TOKEN_FILE"),
}


def warn_of_ignored(ctx: click.Context, given: dict[str, Any]) -> None:
    """Say which settings have no effect, a line for each kind."""
    explicit = [each for each in ctx.command.params if each.name and is_given(ctx, each.name)]
    for each in explicit:
        if each.name in {"compact", "no_compact"}:
            click.echo(f"beanpole serve: {each.opts[0]} does nothing and is ignored", err=True)
    if given["data_dir"] is None:
        flags = [each.opts[0] for each in explicit if each.name in {"fsync_ms", "no_fsync", "segment_bytes"}]
        if flags:
            click.echo(f"beanpole serve: {', '.join(flags)} without -b: ignored, as no jobs are kept on disk", err=True)
    if not given["http"]:
        flags = [each.opts[0] for each in explicit if each.name in ONLY_WITH_HTTP]
        if flags:
            click.echo(f"beanpole serve: {', '.join(flags)} without --http: ignored, as no HTTP is served", err=True)
    known = {each.envvar for each in ctx.command.params} | OF_OTHER_VERBS
    unknown = sorted(name for name in os.environ if name.startswith("BEANPOLE_") and name not in known)
    if unknown:
        click.echo(f"beanpole serve: no such setting, ignored: {', '.join(unknown)}", err=True)


def as_path(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> "Path | None":
    """Return a path, for which pathlib is imported: a server that needs none starts a twentieth faster."""
    if value is None:
        return None
    from pathlib import Path

    return Path(value)


# Flags that contradict --cluster, and why.
NOT_IN_A_CLUSTER = {
    "data_dir": "-b keeps the log in files, but that of a --cluster is in PostgreSQL; leave one of them out",
    "fsync_ms": "-f is about the disk of this machine; leave it out with --cluster",
    "no_fsync": "-F is about the disk of this machine; leave it out with --cluster",
    "segment_bytes": "-s is about files; leave it out with --cluster",
    "fronts": "--fronts is for a server alone: in a cluster followers have the clients' sockets, and `beanpole route`;"
    " leave one of them out",
    "shard": "--shard would hold until another node leads; `beanpole cluster init` sets it for all nodes",
    "body_bytes_max": "-z would hold until another node leads; `beanpole cluster init` sets it for all nodes",
}


def passing(cluster_ca: str) -> "Passing":
    """Return how a node of a cluster passes its clients on while it follows. Raises UsageError: the file is wrong."""
    import beanpole.front.tlswire  # noqa: F401 - the user that this becomes may not read it
    from beanpole.client.login import Login
    from beanpole.errors import ArgumentError
    from beanpole.front.entering import enter
    from beanpole.front.front import Front
    from beanpole.front.uplink import Uplink
    from beanpole.server.clusterroles import Passing

    ca = cluster_ca or None
    try:
        if ca is not None:  # to read those of the system takes time, and memory, which most nodes don't need
            Login(ca).context()
    except ArgumentError as error:
        raise click.UsageError(f"--cluster-ca: {error}") from error
    return Passing(Front, Uplink, lambda key: Login(ca, token=key or None), enter)


def is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in {None, click.core.ParameterSource.DEFAULT}


def check_cluster(ctx: click.Context, given: dict[str, Any]) -> None:
    """Refuse what makes no sense in a cluster, or without one; warn of what is unsafe. Nothing is bound yet."""
    if not given["cluster"]:
        if given["node"] or given["advertise"] or given["cluster_ca"] or is_given(ctx, "cluster_wait_s"):
            raise click.UsageError(
                "--node, --advertise, --cluster-ca and --cluster-wait are for a node of a cluster; give --cluster as"
                " well"
            )
        return
    if not given["node"]:
        raise click.UsageError("--cluster needs --node NAME, another name for each node")
    for key, reason in NOT_IN_A_CLUSTER.items():
        if is_given(ctx, key):
            raise click.UsageError(reason)
    is_in_argv = ctx.get_parameter_source("cluster") == click.core.ParameterSource.COMMANDLINE
    try:
        warnings = check_cluster_url(given["cluster"], is_in_argv=is_in_argv)
    except ImportError as error:
        advice = "install it with: pip install 'beanpole[cluster]'"
        raise click.UsageError(f"--cluster needs psycopg; {advice} ({error})") from error
    except ValueError as error:
        raise click.UsageError(f"--cluster: {error}") from error
    for each in warnings:
        click.echo(f"beanpole serve: {each}", err=True)


def check_cluster_url(url: str, *, is_in_argv: bool) -> list[str]:
    """Return what is unsafe about a connection string.

    Raises ValueError: it is none. Raises ImportError: nothing here can use it.
    """
    from beanpole.log.postgres import url as urls

    urls.check_url(url)
    return list(urls.warnings_of(url, os.environ, is_in_argv=is_in_argv))


def check_node(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse a name that would not be one word in a log line or a table."""
    if len(value) > 64 or not all(each.isascii() and (each.isalnum() or each in "._-") for each in value):
        raise click.BadParameter("a name has letters, digits and ._- only, 64 at most", ctx, parameter)
    return value


def check_advertise(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse an address that other machines can't connect to."""
    from beanpole.server.listener import split_address

    if not value:
        return value
    try:
        host, port = split_address(value, 0)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    if value.startswith("unix:") or not port:
        raise click.BadParameter(f"{value!r} names no port that others can connect to; write HOST:PORT", ctx, parameter)
    if host in {"0.0.0.0", "::", "*"}:  # noqa: S104 - nothing is bound here
        raise click.BadParameter(f"{host} is every address; name the one that others reach", ctx, parameter)
    return value


def check_http(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse an address where HTTP can't be served, and any without what serves it."""
    from beanpole.server import early, listener

    if not value:
        return value
    if value.startswith(listener.UNIX):
        raise click.BadParameter(f"{value!r} is no TCP address; write HOST:PORT", ctx, parameter)
    try:
        listener.split_address(value, 0)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    if name := early.missing():
        raise click.UsageError(f"--http needs {name}; install it with: pip install 'beanpole[console]'", ctx)
    return value


def check_token_file(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Refuse a file without tokens; return its path as any process finds it."""
    if not value:
        return ""
    from beanpole.console.security import tokens

    path = tokens.absolute(value)
    try:
        tokens.read(path)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    return str(path)


def check_host_names(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what no request can have as its Host: a URL, a pattern, several names in one."""
    for name in value:
        if not name or any(each in "/*,; " for each in name):
            raise click.BadParameter(f"{name!r} is no name of a host; write it as in queue.example.org", ctx, parameter)
    return value


def set_user(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return value or None


def option(*names: str, **given: Any) -> "Callable[[click.decorators.FC], click.decorators.FC]":
    """Return an option that can be set in the environment: BEANPOLE_PORT is --port."""
    long = next(each for each in names if each.startswith("--"))
    return click.option(*names, envvar="BEANPOLE_" + long.removeprefix("--").upper().replace("-", "_"), **given)


TYPES: dict[str, click.ParamType[Any]] = {
    "body": BodyLimit(),
    "size": Size(),
    "ms": Duration(unit="ms", whole=True),
    "seconds": Duration(1, whole=True),
    "shard": SHARD,
    "directory": click.Path(file_okay=False),
    "file": click.Path(dir_okay=False),
    "path": click.Path(),
}
"""How click reads the kinds that have a name; others are texts."""

CHECKS: dict[str, "Callable[..., Any]"] = {
    "listen": check_listen,
    "body_bytes_max": cap_body_bytes,
    "user": set_user,
    "data_dir": as_path,
    "segment_bytes": raise_segment_bytes,
    "node": check_node,
    "advertise": check_advertise,
    "ready_file": as_path,
    "http": check_http,
    "http_host": check_host_names,
    "http_token_file": check_token_file,
    "config": read_config,
}
"""What looks at a value that was read, or changes it, by setting."""


def made(row: Option) -> "Callable[[click.decorators.FC], click.decorators.FC]":
    """Return what adds an option to a command, as its row says."""
    kind = row.kind
    shown = {"callback": CHECKS.get(row.setting), **row.shown}
    if kind == "flag":
        shown["is_flag"] = True
    elif kind == "count":
        shown["count"] = True
    elif isinstance(kind, str):
        shown["type"] = TYPES.get(kind)
    else:
        shown["type"] = click.IntRange(*kind) if isinstance(kind, tuple) else click.Choice(kind)
    return option(*row.names, **shown) if row.long else click.option(*row.names, **shown)


def all_options(command: "click.decorators.FC") -> "click.decorators.FC":
    for row in reversed(OPTIONS):
        command = made(row)(command)
    return command


log_format = made(next(each for each in OPTIONS if each.setting == "log_format"))


@click.command(context_settings=SETTINGS)
@all_options
@click.version_option(beanpole.__version__, "-v", "--version", message="beanpole %(version)s")
@click.pass_context
def serve(ctx: click.Context, /, **given: Any) -> int:
    """Run the server.

    Each option can be set in the environment (BEANPOLE_PORT for --port) and in the --config file (port = 11300); the
    command line wins over the environment, the environment over the file.

    With -b a reply is sent when what it says is on disk; -f and -F give that up for speed.
    """
    from beanpole.server import app
    from beanpole.server.settings import Settings

    if given["no_fsync"] and given["fsync_ms"] is not None:
        raise click.UsageError("-f and -F contradict each other; give one of them")
    check_cluster(ctx, given)
    warn_of_ignored(ctx, given)
    given["fsync_ms"] = None if given.pop("no_fsync") else given["fsync_ms"] or 0
    settings = Settings(**given)
    return int(app.serve(settings, passing=passing(settings.cluster_ca) if settings.cluster else None))


serve.epilog = notes_of(serve) + EXIT_CODES
