"""Who is served next when more has come than can be served at once.

Sources (IP addresses) are served in turn, for a time each: an item costs what serving it has taken, so that a source
whose requests are expensive gets fewer of them served. Within a source its ports are served in turn, one item each.

What had nothing waiting is served before what has been served and has more, in alternation, so that neither can starve
the other. So a client that sends one request and waits for the reply waits for one item, and not for a round.

Bytes are shared in the same way: a source may have waiting what all may have divided by the sources, and a port what
its source may have divided by the source's ports. Who has more loses what it sends next, and nobody else does. Shares
shrink as others come, and what waits already stays; and a port that has nothing waiting may have one item. So a source
may have twice its share, however many ports it has, and all together four times as much.

This module knows no datagrams and reads no clock.
"""

from collections import deque

import cython
from cython.cimports.libc.stdint import int64_t

from beanpole_ids import limits

SHARE_NS = cython.declare(int64_t, 200_000)  # for which a source is served when others wait: a fifth of a turn
DEBT_MAX_NS = cython.declare(int64_t, 5_000_000)  # that a source can have had too much: a request may take longer


@cython.cclass
class Rota:
    """Members in the order in which they are served."""

    def __cinit__(self):
        self.fresh = deque()
        self.rest = deque()

    def next(self):
        """Take out the member that is next. There is one."""
        self.is_fresh_next = not self.is_fresh_next
        if self.fresh and (self.is_fresh_next or not self.rest):
            return self.fresh.popleft()
        return self.rest.popleft()


@cython.cclass
class Flow:
    """What has come from one port."""

    def __init__(self, port: object) -> None:
        self.port = port
        self.items = deque()


@cython.cclass
class Source:
    """What has come from one address."""

    def __init__(self, address: bytes) -> None:
        self.address = address
        self.flows = {}
        self.rota = Rota()
        self.credit_ns = SHARE_NS


@cython.cclass
class Fair:
    """Items that wait to be served, each from a port of an address."""

    def __init__(
        self,
        source_bytes: cython.Py_ssize_t = limits.QUEUE_SOURCE_BYTES,
        bytes_max: cython.Py_ssize_t = limits.QUEUE_BYTES,
    ) -> None:
        """`source_bytes`: the share of a source at the most. `bytes_max`: what all may have together."""
        self.source_bytes = source_bytes
        self.bytes_max = bytes_max
        self.sources = {}
        self.rota = Rota()

    def add(self, address, port, item, byte_count):
        """Let an item wait; whether there was room for it."""
        source: Source | None
        flow: Flow | None
        source = self.sources.get(address)
        if self.byte_count + byte_count > 4 * self.bytes_max:
            return False
        if source is None:
            source = self.sources[address] = Source(address)
            self.rota.fresh.append(source)
        room: cython.Py_ssize_t = min(self.source_bytes, self.bytes_max // len(self.sources))
        if source.byte_count and source.byte_count + byte_count > 2 * room:
            return False
        flow = source.flows.get(port)
        if flow is None:
            flow = source.flows[port] = Flow(port)
            source.rota.fresh.append(flow)
        elif flow.byte_count + byte_count > room // len(source.flows):
            return False
        flow.items.append((item, byte_count))
        flow.byte_count += byte_count
        source.byte_count += byte_count
        self.byte_count += byte_count
        self.count += 1
        return True

    def take(self):
        """Return the item to serve next, and forget it; None: nothing waits. Then `charge` says what it has cost."""
        source: Source | None
        flow: Flow
        byte_count: cython.Py_ssize_t
        if not self.count:
            return None
        source = self.current
        while source is None or not source.flows or source.credit_ns <= 0:
            if source is not None and source.flows:
                self.rota.rest.append(source)
            elif source is not None:
                del self.sources[source.address]
            source = self.current = self.rota.next()
            if source.credit_ns <= 0:
                source.credit_ns += SHARE_NS
        flow = source.rota.next()
        item, byte_count = flow.items.popleft()
        flow.byte_count -= byte_count
        source.byte_count -= byte_count
        if flow.items:
            source.rota.rest.append(flow)
        else:
            del source.flows[flow.port]
        self.byte_count -= byte_count
        self.count -= 1
        return item

    def charge(self, cost_ns):
        """Say what serving the item that was taken last has cost its source."""
        if self.current is not None:
            self.current.credit_ns = max(self.current.credit_ns - cost_ns, -DEBT_MAX_NS)
        return 0
