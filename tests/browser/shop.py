"""A shop at work, for pictures: programs that put jobs, and workers that do them, fail, and try again.

Everything is real: a server, clients on connections of their own, jobs that die of what their worker said.
"""

import json
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from beanpole import Client
from beanpole.client.scheduling import ScheduleOptions
from beanpole.errors import TimedOutError
from tests.e2e.process import Process
from tests.servers import HOST

RULES: dict[str, dict[str, object]] = {
    "webhooks": {"attempts": 3, "backoff": "1 factor 2", "dead": "webhooks-dead"},
    "invoices": {"attempts": 2, "backoff": "0.5", "dead": "invoices-dead", "concurrency": 4},
    "search-*": {"rate": "20/s burst 40"},
    "*": {"jobs-max": 100_000},
}

SCHEDULES: dict[str, ScheduleOptions] = {
    "daily-sales": {"cron": "30 2 * * *", "zone": "Europe/Berlin", "tube": "reports", "spread": 600},
    "export-catalog": {"cron": "0 */6 * * *", "tube": "exports"},
    "index-prices": {"every": 10, "tube": "search-index"},
    "invoice-run": {"cron": "0 6 1 * *", "zone": "Europe/Berlin", "tube": "invoices"},
    "newsletter": {"cron": "0 9 * * MON#1", "zone": "America/New_York", "tube": "newsletter"},
    "retry-exports": {"every": 15, "tube": "exports"},
}

FAILURES = {
    "webhooks": (
        'TimeoutError: hooks.example.com did not answer within 10 s\n  File "hooks.py", line 41, in deliver',
        'HTTPError: 410 Gone\n  File "hooks.py", line 57, in deliver',
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ),
    "invoices": (
        "KeyError: 'vat_number'\n  File \"invoices.py\", line 88, in totals",
        'DeadlockDetected: process 4711 waits for ShareLock\n  File "db.py", line 12, in commit',
    ),
}


@dataclass(frozen=True)
class Work:
    """What a tube has to do."""

    tube: str
    per_second: float
    seconds: float  # that a job takes
    workers: int
    failing: float = 0.0  # the part of the attempts that fail
    delay: float = 0.0


WORK = (
    Work("emails", 24, 0.05, 2),
    Work("thumbnails", 6, 0.45, 3),
    Work("webhooks", 5, 0.12, 2, failing=0.3),
    Work("invoices", 1.5, 0.6, 1, failing=0.12),
    Work("search-index", 12, 0.04, 1),
    Work("reports", 0.3, 2.5, 1, delay=45),
    Work("exports", 0.2, 30, 1),
)


def body_of(tube: str, number: int) -> bytes:
    """What a job of a tube says."""
    about: dict[str, object] = {
        "emails": {"to": f"customer{number % 977}@example.org", "template": "order-shipped", "order": 20_000 + number},
        "thumbnails": {"image": f"products/{number % 500}.jpg", "sizes": [120, 480, 1200]},
        "webhooks": {"url": f"https://hooks.example.com/{number % 40}", "event": "order.paid", "attempt_id": number},
        "invoices": {"customer": number % 977, "lines": [{"sku": f"A-{number % 50}", "amount": "19.90"}], "vat": True},
        "search-index": {"product": number, "fields": ["title", "price"]},
        "reports": {"report": "daily-sales", "shop": number % 12},
        "exports": {"format": "csv", "rows": 1_000_000},
    }
    return json.dumps(about[tube]).encode()


class Shop:
    """Programs that keep a server at work until they are stopped."""

    def __init__(self, process: Process) -> None:
        self._address = (HOST, process.port)
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        with Client(self._address, None, name="deploy@shop1 rules") as client:
            for pattern, rules in RULES.items():
                client.set_rules(pattern, rules)
            for number in range(40):
                client.put(body_of("emails", number), tube="newsletter", key=f"newsletter-2026-{number}")
            client.pause_tube("newsletter", 86_400)
            for number, (name, options) in enumerate(SCHEDULES.items()):
                tube = options.get("tube") or "default"
                client.set_schedule(name, body_of("emails" if tube == "newsletter" else tube, number), **options)
            client.pause_schedule("newsletter")
        for place, work in enumerate(WORK):
            self._begin(self._put, work, f"shop{place % 2 + 1}:{812 + place % 2} web")
            for number in range(work.workers):
                self._begin(self._work, work, f"worker{number + 1}:3{place}{number} {work.tube} 1.4.2")

    def close(self) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _begin(self, what: Callable[[Work, str], None], work: Work, name: str) -> None:
        self._threads.append(threading.Thread(target=what, args=(work, name)))
        self._threads[-1].start()

    def _put(self, work: Work, name: str) -> None:
        """Puts jobs, more and fewer in turn, as customers come."""
        chance, number = random.Random(work.tube), 0
        with Client(self._address, None, name=name) as client:
            while not self._over.wait(chance.expovariate(work.per_second * (1 + 0.6 * math.sin(number / 150)))):
                number += 1
                client.put(body_of(work.tube, number), tube=work.tube, delay=work.delay, priority=number % 3, ttr=40)

    def _work(self, work: Work, name: str) -> None:
        """Does jobs; some fail."""
        chance = random.Random(name)
        with Client(self._address, None, name=name, watch=work.tube) as client:
            client.name_session(name)
            while not self._over.is_set():
                try:
                    job = client.reserve(timeout=1)
                except TimedOutError:
                    continue
                self._over.wait(work.seconds * chance.uniform(0.5, 1.5))
                if chance.random() >= work.failing:
                    client.delete(job)
                elif chance.random() < 0.03:
                    client.bury(job)
                else:
                    client.fail_job(job, chance.choice(FAILURES[work.tube]))
