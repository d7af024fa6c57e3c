"""The options of a server: for each its names, how its text is read, and what the help says. One row each.

`beanpole.cli.serve` makes click's command of them. That takes a fifth of a start, so `beanpole.server.early` reads by
the same rows what is plain. Nothing is imported here that a server doesn't need before it listens.
"""

from beanpole import limits
from beanpole.log import limits as log_limits
from beanpole.server import limits as server_limits

TYPE_CHECKING = False  # as in beanpole/__init__.py
if TYPE_CHECKING:
    from typing import Any

SEGMENT_BYTES_MIN = 65_536  # below, the files' headers and ends would matter

Kind = tuple[int, int | None] | list[str] | str
"""How a text is read: a whole number from the first to the second, one of some words, or as the name says."""


class Option:
    """One option. Its last name is that of the setting, if it has no dashes."""

    def __init__(
        self,
        *names: str,
        kind: Kind = "text",
        waits: bool = False,
        plain: bool = False,
        **shown: "Any",  # noqa: ANN401 - as click's
    ) -> None:
        self.names = names
        self.long = next((each for each in names if each.startswith("--")), "")
        self.setting = names[-1].lstrip("-").replace("-", "_")
        self.kind = kind
        self.waits = waits  # whether a server that has it listens only when all else is known to be right
        self.plain = plain  # whether nothing but its own text says what it means, and nobody is warned
        self.has_text = kind not in {"flag", "count"} if isinstance(kind, str) else True
        self.shown = shown  # what click takes besides


OPTIONS = (
    Option(
        "-l",
        "--listen",
        kind="address",
        plain=True,
        multiple=True,
        metavar="ADDR",
        help="Listen on ADDR, HOST:PORT, [IPV6]:PORT, unix:PATH or tls:HOST:PORT; may be repeated. Behind it may stand"
        " ,name=value: user= for any, client-ca= and client-cert= for tls:, mode= and group= for unix:."
        "  [default: every address]",
    ),
    Option(
        "-p",
        "--port",
        kind=(0, 65535),
        plain=True,
        metavar="PORT",
        default=limits.PORT_DEFAULT,
        show_default=True,
        help="TCP port where --listen names none; 0 lets the system choose.",
    ),
    Option(
        "-z",
        "--body-bytes-max",
        kind="body",
        plain=True,
        default=limits.BODY_BYTES_MAX_DEFAULT,
        show_default=True,
        help="The largest body of a job.",
    ),
    Option("-u", "--user", kind="user", plain=True, metavar="USER", help="Become USER when the ports are bound."),
    Option(
        "--access",
        kind="path",
        waits=True,
        default="",
        metavar="FILE",
        help="Let only the users of this file connect, each with rights of its own.",
    ),
    Option(
        "--tokens",
        kind="path",
        waits=True,
        default="",
        metavar="FILE",
        help="With --access: the tokens by which clients say who they are, from `beanpole token add`.",
    ),
    Option("--tls-cert", kind="path", waits=True, default="", metavar="FILE", help="With tls: the certificate, PEM."),
    Option("--tls-key", kind="path", waits=True, default="", metavar="FILE", help="With tls: its private key, PEM."),
    Option(
        "-b",
        "--data-dir",
        kind="directory",
        waits=True,
        plain=True,
        help="Keep jobs in this directory. Without it they are in memory only.",
    ),
    Option(
        "-f",
        "--fsync-ms",
        kind="ms",
        waits=True,
        help="With -b: sync so often instead of before each reply; 0 is before each reply.",
    ),
    Option("-F", "--no-fsync", kind="flag", waits=True, help="With -b: never sync, the system does it."),
    Option(
        "-s",
        "--segment-bytes",
        kind="size",
        waits=True,
        default=log_limits.SEGMENT_BYTES_DEFAULT,
        show_default=True,
        help=f"With -b: the size of a file of the log, {SEGMENT_BYTES_MIN} at least.",
    ),
    Option(
        "--shard",
        kind="shard",
        waits=True,
        metavar="N[,N]",
        default="",
        help="Be shard N, 0 to 1023, whose ids begin at N * 2^43; -b keeps that. A further number behind it is for when"
        " these are used up.",
    ),
    Option(
        "--cluster",
        waits=True,
        metavar="URL",
        help="Be a node of the cluster whose log is in this PostgreSQL database.",
    ),
    Option("--node", waits=True, default="", help="With --cluster: the name of this node."),
    Option(
        "--advertise",
        waits=True,
        metavar="HOST:PORT",
        default="",
        help="With --cluster: where clients and other nodes reach this one.  [default: its only address]",
    ),
    Option(
        "--cluster-ca",
        kind="path",
        waits=True,
        default="",
        metavar="FILE",
        help="With --cluster and tls: trust the CAs in FILE for the other nodes.  [default: the system's]",
    ),
    Option(
        "--cluster-wait",
        "cluster_wait_s",
        kind="seconds",
        waits=True,
        default=server_limits.CLUSTER_WAIT_S,
        show_default=True,
        help="With --cluster: how long without a leader or a confirmed row until clients are closed.",
    ),
    Option("-c", "compact", kind="flag", expose_value=False, help="Does nothing; accepted as beanstalkd does."),
    Option("-n", "no_compact", kind="flag", expose_value=False, help="Does nothing; accepted as beanstalkd does."),
    Option(
        "--tubes-max",
        kind=(1, None),
        plain=True,
        metavar="N",
        default=limits.TUBES_MAX,
        help="Tubes that there may be; use and watch of one more are answered with OUT_OF_MEMORY, and end the"
        " connection.  [default: no limit]",
    ),
    Option(
        "--schedules-max",
        kind=(0, None),
        plain=True,
        metavar="N",
        default=limits.SCHEDULES_MAX,
        show_default=True,
        help="Schedules that there may be; set-schedule of one more is answered with BAD_SCHEDULE.",
    ),
    Option(
        "--once-max",
        kind=(0, 2**32 - 2),
        plain=True,
        metavar="N",
        default=limits.ONCE_MAX,
        show_default=True,
        help="Tokens of puts with once= that there may be; a put with one more is answered with OUT_OF_MEMORY.",
    ),
    Option(
        "--connections-max",
        kind=(1, None),
        plain=True,
        metavar="N",
        default=server_limits.CONNECTIONS_MAX,
        help="Connections at a time; further clients wait.  [default: as many as files may be open]",
    ),
    Option(
        "--fronts",
        kind=(0, server_limits.FRONTS_MAX),
        plain=True,
        metavar="N",
        default=0,
        show_default=True,
        help="Accept clients in so many processes of their own, and in none here: for more than one core.",
    ),
    Option(
        "--ready-file",
        kind="file",
        plain=True,
        help="Write the bound addresses into this file when clients are answered.",
    ),
    Option(
        "--http",
        kind="http",
        plain=True,
        metavar="ADDR",
        default="",
        help="Serve the console over HTTP on ADDR, in a process of its own: pages, an API, metrics.",
    ),
    Option(
        "--http-host",
        metavar="NAME",
        multiple=True,
        help="With --http: a name by which it is called, besides addresses and localhost; may be repeated.",
    ),
    Option(
        "--http-token-file",
        kind="path",
        waits=True,
        help="With --http: a line `NAME TOKEN` for each who may change things; without it pages are read-only.",
    ),
    Option("--http-hide-bodies", kind="flag", help="With --http: show, search and give out no body of a job."),
    Option(
        "--metrics-tubes",
        metavar="PATTERN",
        multiple=True,
        help="With --http: tubes to measure one by one, as in jobs-*; may be repeated.  [default: the first by name]",
    ),
    Option(
        "--legacy-metrics",
        kind="flag",
        help="With --http: show metrics by the names of the messagebird exporter as well.",
    ),
    Option(
        "--one-reply-per-send",
        kind="flag",
        plain=True,
        help="Send each reply to pipelined commands alone, for clients that can't read two at once.",
    ),
    Option(
        "--log-format",
        kind=["auto", "console", "json"],
        plain=True,
        default="auto",
        show_default=True,
        help="auto: console on a terminal, else JSON.",
    ),
    Option("-V", "--verbose", "verbose_count", kind="count", plain=True, help="Log every connection."),
    Option(
        "--config",
        kind="path",
        waits=True,
        is_eager=True,
        expose_value=False,
        help="A TOML file with a key for each long option.",
    ),
)
