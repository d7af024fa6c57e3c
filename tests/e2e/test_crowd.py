"""Many connections: ten thousand that are idle, and more than the process has file descriptors for."""

import os
import resource
import select
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.e2e.process import Client, Process, healthy, serving, wait_until

IDLE_COUNT = 10_000
BUSY_COUNT = 50
ROUNDS = 60
TRIES = 5
"""A server that has to wait for a processor finds many commands at once, and takes less time for each."""

DESCRIPTORS = 64
"""What the starved server may open."""

KNOCKING = 80
"""Clients that come to the starved server; more than it has descriptors for."""


@pytest.fixture
def descriptors() -> None:
    """Enough descriptors for our ends of the connections; the server raises its limit itself."""
    wanted = IDLE_COUNT + BUSY_COUNT + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        reason = f"the hard limit of open files is {hard}, and this takes {wanted}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def work(clients: list[Client]) -> None:
    """Each client puts, reserves and deletes jobs in a tube of its own, all at the same time."""
    for number, client in enumerate(clients):
        client.send(b"use t%d\r\nwatch t%d\r\n" % (number, number))
    for number, client in enumerate(clients):
        client.expect(b"USING t%d\r\n" % number)
        assert client.line().startswith(b"WATCHING ")
    for round_number in range(ROUNDS):
        body = b"round %d" % round_number
        for client in clients:
            client.send(b"put 0 0 60 %d\r\n%b\r\nreserve\r\n" % (len(body), body))
        for client in clients:
            inserted = client.line()
            assert inserted.startswith(b"INSERTED ")
            job_id = inserted.split()[1]
            client.expect(b"RESERVED %b %d\r\n%b\r\n" % (job_id, len(body), body))
            client.send(b"delete %b\r\n" % job_id)
        for client in clients:
            client.expect(b"DELETED\r\n")


def ticks_of_work(process: Process, clients: list[Client]) -> int:
    """Processor time that the server takes for that."""
    started = process.cpu_ticks()
    work(clients)
    return process.cpu_ticks() - started


@pytest.mark.usefixtures("descriptors")
@pytest.mark.long
def test_ten_thousand_idle_connections_beside_fifty_busy_ones() -> None:
    with healthy() as process, ExitStack() as stack:
        busy = [stack.enter_context(process.connect()) for _ in range(BUSY_COUNT)]
        work(busy)  # So that memory and processor time of what comes first are not counted below.
        alone_ticks, alone_bytes = ticks_of_work(process, busy), process.rss_bytes()

        idle = [process.connect(wait_accepted=False) for _ in range(IDLE_COUNT)]
        try:
            wait_until(
                lambda: busy[0].statistic("current-connections") == IDLE_COUNT + BUSY_COUNT, "all clients are accepted"
            )
            for _ in range(TRIES):
                ticks = ticks_of_work(process, busy)
                if ticks <= 2 * alone_ticks + 10:
                    break
            else:
                raise AssertionError(f"{ticks} ticks beside idle connections, {alone_ticks} without")
            grown = process.rss_bytes() - alone_bytes
            assert grown < IDLE_COUNT * 4096, f"an idle connection takes {grown // IDLE_COUNT} bytes"
            for client in idle[:: IDLE_COUNT // 100]:
                client.ask(b"list-tube-used\r\n", b"USING default\r\n")
        finally:
            for client in idle:
                client.reset()


def starved(*flags: str) -> AbstractContextManager[Process]:
    return serving(*flags, limits={resource.RLIMIT_NOFILE: DESCRIPTORS})


def knock(process: Process, stack: ExitStack) -> list[Client]:
    """More clients than there are descriptors for, each with a command on its way."""
    clients = [stack.enter_context(process.connect(wait_accepted=False)) for _ in range(KNOCKING)]
    for client in clients:
        client.send(b"list-tube-used\r\n")
    wait_until(lambda: process.events("accepting paused"), "accepting pauses")
    return clients


def answered(clients: list[Client], timeout_s: float) -> list[Client]:
    """The clients that have got something."""
    readable, _, _ = select.select([client.socket for client in clients], [], [], timeout_s)
    return [client for client in clients if client.socket in readable]


def test_out_of_descriptors_pauses_accepting_and_serves_the_rest() -> None:
    with starved("-V") as process, ExitStack() as stack:
        witness = stack.enter_context(process.connect())
        clients = knock(process, stack)
        accepted = witness.statistic("current-connections") - 1
        assert 0 < accepted < KNOCKING
        served = clients[:accepted]
        waiting = clients[accepted:]
        for client in served:  # The kernel queues in order, so these are the first ones.
            client.expect(b"USING default\r\n")

        started = process.cpu_ticks()
        for number in range(200):
            client = served[number % accepted]
            client.ask(b"use t%d\r\n" % number, b"USING t%d\r\n" % number)
        witness.ask(b"reserve-with-timeout 3\r\n", b"TIMED_OUT\r\n")  # Long enough to try again a few times.
        ticks = process.cpu_ticks() - started
        assert ticks <= 30, f"{ticks} ticks for 200 commands and 3 seconds of waiting: the server spins"
        (line,) = process.events("accepting paused")
        assert (line["level"], line["reason"]) == ("error", "EMFILE")
        assert not process.events("failed")
        assert not answered(waiting, 0)

        for number in range(5):
            served[number].socket.close()
            wait_until(lambda: answered(waiting, 0), "the free descriptor goes to a client that waits")
            (accepted_now,) = answered(waiting, 0)
            accepted_now.expect(b"USING default\r\n")
            waiting.remove(accepted_now)


@pytest.mark.long
def test_clients_that_come_and_go_at_the_limit_do_not_flood_the_log() -> None:
    with starved() as process, ExitStack() as stack:
        clients = knock(process, stack)
        for _ in range(60):
            clients.pop(0).socket.close()
            stack.enter_context(process.connect(wait_accepted=False))
        for client in clients:
            client.expect(b"USING default\r\n")
        paused = process.events("accepting paused")
        assert len(paused) <= 2, f"{len(paused)} lines about the same shortage"
