"""HTTP put together: routes, health, metrics and the server. Imported only if HTTP is configured."""

from collections.abc import Callable
from importlib.metadata import version

from beanpole.ids.health import Health
from beanpole.ids.http import Server
from beanpole.ids.measured import Measured
from beanpole.ids.metrics import Metrics
from beanpole.ids.routes import Routes
from beanpole.ids.sequence import Clock
from beanpole.ids.service import Service


def make_server(
    service: Service,
    store: Measured,
    clock: Clock,
    epoch: int,
    unsent_count: Callable[[], int],
) -> Server:
    """Return a server, not yet open. `unsent_count`: see `Metrics`."""
    about: dict[str, object] = {"version": version("beanpole"), "node": service.config.offset, "epoch": epoch}
    metrics = Metrics(service, store, clock, epoch, version("beanpole"), unsent_count)
    routes = Routes(service, Health(service, store, store.monotonic_s), metrics.page, about)
    server = Server(routes)
    metrics.http = routes.counts
    metrics.connection_count = lambda: len(server.connections)
    return server
