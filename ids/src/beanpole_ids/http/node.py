"""All that HTTP consists of, put together."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from beanpole_ids.http.guard import Guard
from beanpole_ids.http.health import Health
from beanpole_ids.http.listing import Listing
from beanpole_ids.http.metrics import Metrics
from beanpole_ids.http.routes import Reload, Routes
from beanpole_ids.http.serving import Web
from beanpole_ids.rules.sequence import Clock
from beanpole_ids.rules.web import Http
from beanpole_ids.service import Service
from beanpole_ids.storage.measured import Measured


@dataclass(frozen=True, slots=True)
class Node:
    """What HTTP tells of, and works on."""

    service: Service
    store: Measured
    clock: Clock
    epoch: int
    """The lease's."""

    unsent_count: Callable[[], int]
    """Replies that could not be sent over UDP."""

    reload: Reload
    """Reads the rules again; see `Routes`."""

    now_ns: Callable[[], int]
    """The monotonic clock, in nanoseconds."""


def make_web(node: Node, http: Http) -> Web:
    """Return what serves a node, not yet open."""
    service, store = node.service, node.store
    about: dict[str, object] = {"version": version("beanpole-ids"), "node": service.config.offset, "epoch": node.epoch}
    metrics = Metrics(service, store, node.clock, node.epoch, version("beanpole-ids"), node.unsent_count)
    health, listing = Health(service, store, store.monotonic_s), Listing(service, metrics.totals)
    guard = Guard(http.names, http.reload_from)
    routes = Routes(service, health, metrics.page, listing, about, guard, node.reload)
    web = Web(routes, node.now_ns, http.connections_per_source)
    metrics.http = routes.counts
    metrics.connection_count = lambda: len(web.places.connections)
    metrics.refused_count = lambda: web.places.refused_count
    return web
