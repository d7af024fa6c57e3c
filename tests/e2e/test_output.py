"""Clients that do not read: what they cost is bounded, nobody else notices, and no reply is lost."""

import threading

from tests.e2e.process import Client, Process, healthy

MIB = 1 << 20
JOBS = 100
BODY_BYTES = 200


def put_jobs(process: Process, body_bytes: int) -> list[bytes]:
    """Puts jobs whose bodies differ; returns the reply to a peek of each."""
    replies = []
    with process.connect() as client:
        for number in range(1, JOBS + 1):
            body = b"%d " % number * body_bytes
            client.ask(b"put 0 0 10 %d\r\n%b\r\n" % (body_bytes, body[:body_bytes]), b"INSERTED %d\r\n" % number)
            replies.append(b"FOUND %d %d\r\n%b\r\n" % (number, body_bytes, body[:body_bytes]))
    return replies


def work(client: Client, rounds: int) -> None:
    """Puts, reserves and deletes jobs in a tube of its own."""
    client.ask(b"use work\r\nwatch work\r\nignore default\r\n", b"USING work\r\nWATCHING 2\r\nWATCHING 1\r\n")
    for _ in range(rounds):
        client.send(b"put 0 0 60 4\r\nwork\r\nreserve\r\n")
        job_id = client.line().split()[1]
        client.expect(b"RESERVED %b 4\r\nwork\r\n" % job_id)
        client.ask(b"delete %b\r\n" % job_id, b"DELETED\r\n")
    client.ask(b"watch default\r\n", b"WATCHING 2\r\n")


def test_client_that_never_reads_is_read_no_more_and_loses_nothing() -> None:
    commands = b"".join(b"peek %d\r\n" % number for number in range(1, JOBS + 1)) * 20_000
    with healthy() as process, process.connect() as client, process.connect() as other:
        replies = put_jobs(process, BODY_BYTES)
        before = process.rss_bytes()
        sent = ran = 0
        while ran >= commands.count(b"\n", 0, sent):  # else the server had no processor for a moment, and reads on
            sent += client.send_while_possible(commands[sent:])
            assert sent < len(commands), "the server reads without end from a client that does not read"
            work(other, 200)
            ran = other.statistic("cmd-peek")
        grown = process.rss_bytes() - before
        assert grown < 16 * MIB, f"a client that does not read takes {grown} bytes"
        work(other, 200)
        assert other.statistic("cmd-peek") == ran, "commands of a client that does not read go on running"

        cut = commands.rfind(b"\n", 0, sent) + 1
        wanted = commands.count(b"\n", 0, cut)
        assert wanted > ran > JOBS
        for _ in range(wanted // JOBS):
            client.expect(b"".join(replies))
        client.expect(b"".join(replies[: wanted % JOBS]))
        client.send(commands[sent : commands.index(b"\n", cut) + 1])
        client.expect(replies[wanted % JOBS])


def test_client_that_reads_slowly_takes_no_more_and_more_memory() -> None:
    """Each reply is more than the kernel takes at once, so there is always something unsent when the next one comes."""
    size, count = 8 * MIB, 25
    with healthy("-z", str(size)) as process, process.connect(receive_buffer_bytes=65536) as client:
        client.ask(b"put 0 0 60 %d\r\n" % size + bytes(size) + b"\r\n", b"INSERTED 1\r\n")
        before = process.rss_bytes()
        client.send(b"peek 1\r\n" * count)
        highest = 0
        for _ in range(count):
            client.expect(b"FOUND 1 %d\r\n" % size)
            assert client.take(size + 2)[-2:] == b"\r\n"
            highest = max(highest, process.rss_bytes() - before)
        assert highest < 6 * size, f"a client that reads slowly takes {highest} bytes"


def test_replies_are_in_order_while_both_sides_are_busy() -> None:
    count = 100_000
    with healthy() as process, process.connect() as client:
        commands = b"".join(b"use tube-%d\r\n" % number for number in range(count))
        sender = threading.Thread(target=client.send, args=(commands,))
        sender.start()
        for number in range(count):
            assert client.line() == b"USING tube-%d\r\n" % number
        sender.join()
