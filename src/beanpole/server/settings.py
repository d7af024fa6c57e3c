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

    listen: tuple[str, ...] = ()  # `HOST`, `HOST:PORT`, `unix:PATH`, and what server.places reads; none: every address
    port: int = limits.PORT_DEFAULT  # TCP port of the addresses that don't name one; 0: the system chooses
    body_bytes_max: int = limits.BODY_BYTES_MAX_DEFAULT  # bytes of a job's body
    tubes_max: int = limits.TUBES_MAX  # tubes that there may be; a command that needs one more is refused
    schedules_max: int = limits.SCHEDULES_MAX  # schedules that there may be
    once_max: int = limits.ONCE_MAX  # tokens of puts that are done once
    connections_max: int = server_limits.CONNECTIONS_MAX  # at a time; further ones wait until one of them ends
    fronts: int = 0  # processes that accept the clients; 0: the server does so itself
    one_reply_per_send: bool = False  # for clients that can't take two replies to pipelined commands at once
    access: str = ""  # the file of users; empty: there are none, and every client may do everything
    tokens: str = ""  # the file of their tokens; empty: there are none
    tls_cert: str = ""  # the certificate of the listeners with TLS, in PEM
    tls_key: str = ""  # and its private key
    user: str | None = None  # who to become when the sockets are bound
    ready_file: "Path | None" = None  # where to write the bound addresses, a line each, when the server answers
    log_format: str = "auto"  # `console`, `json`, or `auto`: console on a terminal
    verbose_count: int = 0  # 1 and more: log every connection

    # The log.
    data_dir: "Path | None" = None  # where jobs are kept; None: in memory only
    fsync_ms: int | None = 0  # between syncs; 0: before every reply that depends on one; None: never
    shard: tuple[int, ...] = ()  # its numbers as a shard, which rise; (): what the log says, or none
    segment_bytes: int = log_limits.SEGMENT_BYTES_DEFAULT  # bytes of a file of the log

    # A cluster.
    cluster: str | None = None  # where its log is, a libpq connection string; None: this server is no node of one
    node: str = ""  # the name of this node
    advertise: str = ""  # where others reach this one, HOST:PORT; empty: where it listens, if that is one TCP address
    cluster_ca: str = ""  # who signs the certificates of the other nodes, in PEM; empty: those whom the system trusts
    cluster_wait_s: int = server_limits.CLUSTER_WAIT_S  # without a confirmed row, or a leader, until clients are closed

    # The console.
    http: str = ""  # where it serves HTTP, an address as in `listen`, but no Unix socket; empty: there is no console
    http_host: tuple[str, ...] = ()  # what browsers and scrapers may call it, besides addresses and localhost
    http_token_file: str = ""  # where the tokens of those are who may change things in it; empty: nobody may
    http_hide_bodies: bool = False  # whether it shows no body of a job
    metrics_tubes: tuple[str, ...] = ()  # patterns of the tubes that are measured one by one; none: the first by name
    legacy_metrics: bool = False  # name metrics as the exporter of beanstalkd does, too
