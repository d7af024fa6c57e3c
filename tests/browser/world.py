"""What browser tests look at: a server in which a bit of everything has happened, and a console for it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from beanpole import Client
from tests.browser import hostile
from tests.e2e.console.process import TOKEN, Console, console, token_file
from tests.e2e.process import Process, healthy
from tests.servers import HOST

READY, DELAYED, BURIED, DEAD, HELD = "emails", "reports", "payments", "payments-dead", "thumbnails"
"""The tubes of `fill` that have jobs in one state each; the dead are ready in a tube of their own."""

PAUSED = "newsletter"
SCHEDULE = "nightly-report"
READY_COUNT = 120  # more than a page of jobs has


@dataclass(frozen=True)
class World:
    """A server, a console for it, and what was put."""

    process: Process
    console: Console
    name: str  # how the console calls the server
    token: str = ""  # what lets people change something; empty: nobody may
    ids: dict[str, list[int]] = field(default_factory=dict)  # of jobs, by their tube when they were put

    @property
    def url(self) -> str:
        return url_of(self.console)

    def client(self, name: str = "") -> "Client[bytes]":
        return client_of(self.process, name)


def url_of(served: Console) -> str:
    return f"http://{HOST}:{served.port}"


def client_of(process: Process, name: str = "") -> "Client[bytes]":
    """A client of a server, to be closed."""
    return Client((HOST, process.port), None, name=name or None)


@contextmanager
def living(*flags: str, token: str = TOKEN) -> Iterator[World]:
    """A world; the flags are the console's. Without a token nobody may change anything."""
    with healthy() as process, ExitStack() as clients, token_file(token) as token_flags:
        ids = fill(process, clients)
        with console("--url", f"here=beanstalk://{HOST}:{process.port}", *token_flags, *flags) as served:
            yield World(process, served, "here", token, ids)
        clients.close()


def fill(process: Process, clients: ExitStack) -> dict[str, list[int]]:
    """Puts jobs and brings them into every state; returns their ids. Who holds some, or waits, is a client."""
    client = clients.enter_context(client_of(process, "shop1:4711 web"))
    client.set_rules("payments", {"attempts": 2, "backoff": "0.001", "dead": DEAD})
    client.set_rules("thumb*", {"concurrency": 3})
    ids: dict[str, list[int]] = {}
    for number in range(READY_COUNT):
        body = json.dumps({"to": f"user{number}@example.org", "template": "welcome", "attempt": 1}).encode()
        ids.setdefault(READY, []).append(client.put(body, tube=READY, priority=number % 3))
    ids[DELAYED] = [client.put(b"report %d" % number, delay=86_400, tube=DELAYED) for number in range(5)]
    ids[HELD] = [client.put(b"image %d" % number, tube=HELD, ttr=3_600) for number in range(4)]
    client.put(b"dear reader", tube=PAUSED)
    client.pause_tube(PAUSED, 86_400)
    client.set_schedule(SCHEDULE, b'{"kind": "nightly"}', cron="30 2 * * *", zone="Europe/Berlin", tube=DELAYED)
    client.set_schedule("newsletter", b"dear reader", cron="0 9 * * MON#1", tube=PAUSED)
    client.pause_schedule("newsletter")
    ids[BURIED] = fail(process, clients)
    for number in range(2):
        worker = clients.enter_context(client_of(process, f"worker{number}:815 thumbnails"))
        worker.watch(HELD)
        worker.reserve(timeout=0)
    return ids


def fail(process: Process, clients: ExitStack) -> list[int]:
    """Lets jobs die by two kinds of failure, and buries two; returns their ids."""
    worker = clients.enter_context(client_of(process, "worker3:99 payments"))
    worker.watch("payments")
    worker.ignore("default")
    ids = [worker.put(b'{"invoice": %d}' % number, tube="payments") for number in range(6)]
    for _ in range(2 * 6):
        job = worker.reserve(timeout=10)
        reason = "TimeoutError: bank.example.org did not answer\n  at pay()" if job.id % 2 else f"KeyError: {job.id}"
        worker.fail_job(job, reason)
    for _ in range(2):
        ids.append(worker.put(b"odd one", tube="payments"))
        worker.bury(worker.reserve(timeout=10))
    return ids


def fill_with_hostile(process: Process, clients: ExitStack) -> None:
    """Puts what would be dangerous in a page that does not escape."""
    client = clients.enter_context(client_of(process, hostile.NAMES[0]))
    for tube in hostile.TUBES:
        for body in hostile.BODIES:
            client.put(body, tube=tube)
    for name, body in zip(hostile.TUBES, hostile.BODIES, strict=False):
        client.set_schedule(name, body, cron="0 0 29 2 *", key=hostile.KEYS[0], zone="Europe/Berlin")
    for key in hostile.KEYS:
        client.put(key.encode(), tube="keys", key=key)
    client.watch("failing")
    client.set_rules("failing", {"attempts": 1, "dead": "failing-dead"})
    for reason in hostile.MARKUP:
        client.put(reason.encode(), tube="failing")
        client.fail_job(client.reserve(timeout=10), reason)
    for name in hostile.NAMES:
        holder = clients.enter_context(client_of(process, name))
        holder.watch("javascript/alert(1)")
        holder.reserve(timeout=10)
