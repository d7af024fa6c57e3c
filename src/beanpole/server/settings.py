"""Everything that can be set about a server; the command line fills it in."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from beanpole import limits
from beanpole.log import limits as log_limits
from beanpole.server import limits as server_limits

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """One server's settings, checked: the command line refuses what makes no sense."""

    listen: tuple[str, ...] = ()
    """Addresses: ``ADDR``, ``HOST:PORT``, ``[IPv6]``, ``[IPv6]:PORT``, ``unix:PATH``. None: every address."""

    port: int = limits.PORT_DEFAULT
    """TCP port of the addresses that don't name one; 0: the system chooses."""

    body_bytes_max: int = limits.BODY_BYTES_MAX_DEFAULT
    """Bytes of a job's body."""

    data_dir: "Path | None" = None
    """Where jobs are kept; None: in memory only."""

    fsync_ms: int | None = 0
    """Milliseconds between syncs of the log; 0: before every reply that depends on one; None: never."""

    segment_bytes: int = log_limits.SEGMENT_BYTES_DEFAULT
    """Bytes of a file of the log."""

    tubes_max: int = limits.TUBES_MAX
    """Tubes that there may be; a command that needs one more is refused."""

    connections_max: int = server_limits.CONNECTIONS_MAX
    """Connections at a time; further ones wait until one of them ends."""

    cluster: str | None = None
    """Where the cluster's log is, a libpq connection string; None: this server is no node of one."""

    node: str = ""
    """The name of this node in the cluster."""

    advertise: str = ""
    """Where clients and other nodes reach this one, HOST:PORT; empty: where it listens, if that is one TCP address."""

    cluster_wait_s: int = server_limits.CLUSTER_WAIT_S
    """Seconds without a confirmed row, or without a leader, after which clients are closed."""

    http: str = ""
    """Where the console serves HTTP, an address as in `listen`, but no Unix socket; empty: there is no console."""

    http_host: tuple[str, ...] = ()
    """Names by which browsers and scrapers may call the console, besides addresses and localhost."""

    http_token_file: str = ""
    """Where the tokens of those are who may change things in the console; empty: nobody may."""

    http_hide_bodies: bool = False
    """Whether the console shows no body of a job."""

    metrics_tubes: tuple[str, ...] = ()
    """Patterns of the tubes that are measured one by one; none: the first by name, as many as are allowed."""

    legacy_metrics: bool = False
    """Name metrics as the exporter of beanstalkd does, too."""

    user: str | None = None
    """Who to become when the sockets are bound."""

    verbose_count: int = 0
    """1 and more: log every connection."""

    ready_file: "Path | None" = None
    """Where to write the bound addresses, a line each, when the server answers."""

    one_reply_per_send: bool = False
    """Send each reply to pipelined commands alone, for clients that can't take two at once."""

    log_format: str = "auto"
    """``console``, ``json``, or ``auto``: console on a terminal."""
