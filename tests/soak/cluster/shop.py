"""A shop whose orders are committed with their jobs, by processes that die on their way; and who looks at the outcome.

An order is a transaction of four statements: begin, the order's row, its jobs, commit.
"""

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psycopg

from beanpole import Client
from beanpole.errors import TimedOutError
from tests.soak.cluster.nodes import NodeProcess
from tests.soak.cluster.postgres import Pair
from tests.soak.seeds import say

STATEMENTS = ("begin", "insert order", "beanpole.put", "commit")
MOMENTS = [f"{statement} {end}" for statement in STATEMENTS for end in ("sent", "answered")]
"""When a process dies: as soon as a statement was sent, or as soon as that was answered."""

LOST, WRONG = "connection lost", "failed"
"""How a process ends that does not die."""

ORDERS_MAX = 12
"""Orders of a process: it dies in the last."""

ORDERS_OF_A_SHOP = 1_000_000_000
WAITS_SHARE = 0.8
"""Of the processes those whose commits wait until they are on disk."""

JOBS_MAX = 3
ROLLBACK_SHARE = 0.05
LARGE_SHARE = 0.02
LARGE_BYTES = 60_000
"""Now and then a body has so many: what a leader reads at once goes into several rows of its log then."""

SENT_S = 0.003
"""About how long PostgreSQL works on a commit: who has sent a statement dies within that."""

MAKE = """
create table public.shop_order (id bigint primary key, jobs int not null);
do $$ begin
    create role shop login;
exception when duplicate_object then null;
end $$;
grant select, insert on public.shop_order to shop;
grant usage on schema beanpole to shop;
grant execute on function beanpole.put to shop;
"""


def serve(url: str, first: int, count: int, moment: str, *, waits: bool) -> None:
    """Place orders, in a process of its own: it dies at a moment of the last, or ends when the connection is lost."""
    rng = random.Random(first)
    lost = contextlib.suppress(psycopg.OperationalError)
    with lost, psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        connection.execute(f"set synchronous_commit = {'on' if waits else 'off'}".encode())
        for id in range(first, first + count):
            place(connection, id, rng, moment if id == first + count - 1 else "")


def place(connection: psycopg.Connection, id: int, rng: random.Random, moment: str) -> None:
    """Place an order; die at a moment of it, if one is given."""
    jobs = rng.randint(1, JOBS_MAX)
    body = f"rpad('{id}-' || number || ' ', {LARGE_BYTES if rng.random() < LARGE_SHARE else 20})"
    statements = (
        "begin",
        f"insert into public.shop_order values ({id}, {jobs})",  # noqa: S608
        f"select beanpole.put('order', convert_to({body}, 'UTF8')) from generate_series(1, {jobs}) number",  # noqa: S608
        "rollback" if rng.random() < ROLLBACK_SHARE else "commit",
    )
    for name, statement in zip(STATEMENTS, statements, strict=True):
        if moment == f"{name} sent":
            connection.pgconn.send_query(statement.encode())
            connection.pgconn.flush()
            time.sleep(rng.random() * SENT_S)
            os.kill(os.getpid(), signal.SIGKILL)
        connection.execute(statement.encode())
        if moment == f"{name} answered":
            os.kill(os.getpid(), signal.SIGKILL)


def serve_all(url: str, seed: int) -> None:
    """Let one process after the other place orders until the input ends; print when each has died, or why not."""
    rng, next_id = random.Random(seed), seed * ORDERS_OF_A_SHOP
    while not select.select([sys.stdin], [], [], 0)[0]:
        moment, count, waits = rng.choice(MOMENTS), rng.randint(1, ORDERS_MAX), rng.random() < WAITS_SHARE
        pid = os.fork()
        if not pid:
            serve(url, next_id, count, moment, waits=waits)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        say(moment if code == -signal.SIGKILL else LOST if code == 0 else WRONG)
        next_id += count


class Shop:
    """A program whose processes place orders."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.command = [sys.executable, "-m", "tests.soak.cluster.shop", url, str(seed)]
        self.said = folder / f"shop-{seed}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=output)

    def ends(self) -> Counter[str]:
        """Return how many processes have ended, and when each has died."""
        return Counter(self.said.read_text().splitlines())

    def close(self) -> None:
        """Let the last process come to its end."""
        if self.process is not None:
            self.process.communicate()


@dataclass
class Outcome:
    """What orders and jobs there are. All but the counts must be empty."""

    orders: int
    jobs: int
    without_job: list[str]
    without_order: list[str]
    twice: list[str]

    @property
    def is_clean(self) -> bool:
        return not (self.without_job or self.without_order or self.twice)


def look(pair: Pair, leader: NodeProcess) -> Outcome:
    """Take all jobs, and join them with the orders."""
    jobs: Counter[str] = Counter()
    url = f"beanstalk://{leader.host}:{leader.find_port()}"
    with Client(url, encoding=None, watch="order") as client, contextlib.suppress(TimedOutError):
        while True:
            jobs.update(job.body.decode().strip() for job in client.reserve_many(1_000, 0))
    found = pair.primary.run("select id, jobs from public.shop_order", database="log")
    expected = {f"{id}-{number}" for id, count in found for number in range(1, count + 1)}
    return Outcome(
        len(found),
        jobs.total(),
        sorted(expected - jobs.keys()),
        sorted(jobs.keys() - expected),
        sorted(body for body, count in jobs.items() if count > 1),
    )


if __name__ == "__main__":
    serve_all(sys.argv[1], int(sys.argv[2]))
