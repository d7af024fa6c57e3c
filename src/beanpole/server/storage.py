"""Where a server stores its jobs: in memory only, or, in :mod:`beanpole.server.directory`, in a directory."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.eventqueue import now_ns
from beanpole.server.settings import Settings

Facts = Callable[[], Mapping[str, str]]


@dataclass(slots=True)
class Storage:
    """An engine with its log."""

    engine: Engine
    log: Log
    clock_offset_ns: int = 0
    """The engine's clock minus the monotonic one: the engine of a log lives by the log's."""

    def start(self, on_durable: Callable[[], None], on_failure: Callable[[OSError], None]) -> None:
        """Begin what the log does by itself."""

    def close(self) -> None:
        """Give back what the log has open."""


def open_memory(settings: Settings, facts: Facts) -> Storage:
    """Return an engine that lives in memory only."""
    log = Log()
    engine = Engine(settings.body_bytes_max, now_ns(), lambda: {**facts(), **log.facts()}, log.records)
    engine.wall_lead_ns = time.time_ns() - now_ns()
    return Storage(engine, log)
