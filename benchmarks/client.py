"""What the client costs: beside greenstalk, in one run, against a server that this starts.

Run with `python -m benchmarks.client`. Rates are per second of wall time, of one client and one connection; the server
runs beside it. Put, reserve and delete are measured each by itself, the two clients in turn. One call at a time is
mostly the way to the server and back, the same for every client that makes two system calls a command; a raw socket
that parses nothing shows what is left to win.
"""

import asyncio
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import greenstalk

from beanpole import AsyncClient, Client
from tests.servers import HOST, beanpole_server

BODY = b"x" * 100
CALLS = 6_000
JOBS = 100_000
ROUNDS = 9
IN_FLIGHT = 500


def rate(work: Callable[[], None], count: int) -> tuple[float, float]:
    """How often a second `work` does what it does `count` times, and how much processor time each takes here."""
    begun_at, used_before_s = time.perf_counter(), time.process_time()
    work()
    return count / (time.perf_counter() - begun_at), (time.process_time() - used_before_s) / count


Either = Client[bytes] | greenstalk.Client[bytes]


def put(client: Either) -> None:
    """Puts jobs, one at a time."""
    for _ in range(CALLS // 3):
        client.put(BODY)


def reserve(client: Either, jobs: list[Any]) -> None:
    """Reserves them, one at a time."""
    jobs.extend(client.reserve() for _ in range(CALLS // 3))


def delete(client: Either, jobs: list[Any]) -> None:
    """Deletes them, one at a time."""
    for job in jobs:
        client.delete(job)
    jobs.clear()


def listing(client: "Client[bytes]") -> None:
    """Lists jobs, page by page."""
    after: int | None = 0
    while after is not None:
        after = client.list_jobs("default", "ready", after=after).next


def raw(connection: socket.socket) -> None:
    """The same with a socket and nothing else."""
    put = b"put 65536 0 60 %d\r\n%s\r\n" % (len(BODY), BODY)
    for _ in range(CALLS // 3):
        connection.sendall(put)
        id = connection.recv(65536)[9:]
        connection.sendall(b"reserve\r\n")
        connection.recv(65536)
        connection.sendall(b"delete " + id)
        connection.recv(65536)


async def asynchronous(port: int) -> None:
    """The asyncio client, one at a time."""
    async with AsyncClient((HOST, port), None) as client:
        for _ in range(CALLS // 3):
            await client.put(BODY)
            await client.delete(await client.reserve())


def reserve_and_delete(client: "Client[bytes]") -> None:
    """Takes all jobs, many in flight."""
    left = JOBS
    while left:
        jobs = client.reserve_many(min(IN_FLIGHT, left), timeout=0)
        client.delete_many(jobs)
        left -= len(jobs)


def pipeline(client: "Client[bytes]") -> None:
    """Takes all jobs, command by command in pipelines."""
    for _ in range(JOBS // IN_FLIGHT):
        with client.pipeline() as p:
            jobs = [p.reserve(0) for _ in range(IN_FLIGHT)]
            p.flush()
            for job in jobs:
                p.delete(job.result())


def main() -> None:
    """Prints the median of the rounds; those that are compared take turns, and are compared round by round."""
    measured: dict[str, list[tuple[float, float]]] = {}
    ours: list[Any] = []
    theirs: list[Any] = []
    with beanpole_server() as server:
        address = (HOST, server.port)
        with (
            Client(address, None) as client,
            greenstalk.Client(address, None) as other,
            socket.create_connection(address) as connection,
        ):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.connect()
            bodies = [BODY] * JOBS
            for _ in range(ROUNDS):
                for name, work, count in (
                    ("put, greenstalk", lambda: put(other), CALLS // 3),
                    ("put, Client", lambda: put(client), CALLS // 3),
                    ("reserve, greenstalk", lambda: reserve(other, theirs), CALLS // 3),
                    ("reserve, Client", lambda: reserve(client, ours), CALLS // 3),
                    ("delete, greenstalk", lambda: delete(other, theirs), CALLS // 3),
                    ("delete, Client", lambda: delete(client, ours), CALLS // 3),
                    ("one at a time, raw socket", lambda: raw(connection), CALLS),
                    ("put_many", lambda: client.put_many(bodies), JOBS),
                    ("list_jobs", lambda: listing(client), JOBS),
                    ("reserve_many and delete_many", lambda: reserve_and_delete(client), JOBS),
                    ("(put again)", lambda: client.put_many(bodies), JOBS),
                    ("pipeline of reserve and delete", lambda: pipeline(client), JOBS),
                    ("one at a time, AsyncClient", lambda: asyncio.run(asynchronous(server.port)), CALLS),
                ):
                    measured.setdefault(name, []).append(rate(work, count))  # type: ignore[arg-type]
    medians = {
        name: [statistics.median(column) for column in zip(*found, strict=True)] for name, found in measured.items()
    }
    for name, (median, cpu_s) in medians.items():
        sys.stdout.write(f"{name:32} {median:10,.0f}/s {cpu_s * 1e6:6.2f} us of processor time")
        if name.endswith(", Client"):
            pairs = list(zip(measured[name], measured[name.replace("Client", "greenstalk")], strict=True))
            rate_ratio, time_ratio = (statistics.median(a[at] / b[at] for a, b in pairs) for at in (0, 1))
            sys.stdout.write(f"  {rate_ratio:.2f} × the rate of greenstalk, {time_ratio:.2f} × its time")
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
