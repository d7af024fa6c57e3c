"""A client that ends: half-close, full close and RST, in every state that a connection can be in.

What was sent before a half-close is executed and answered (protocol-behaviour of beanstalkd: its STATE_WAIT); after a
RST nothing of the client is left, and what it held is ready again.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.process import Client, Process, wait_until

BODY = b"b" * 60_000
CHOKING_COUNT = 400
"""This many replies with that body are far more than the kernel and the server keep for a client that does not read."""


def nothing(_process: Process, _client: Client) -> None:
    """The client has done nothing."""


def waiting(process: Process, client: Client) -> None:
    """The client waits in reserve."""
    client.send(b"watch nothing\r\nignore default\r\n")
    client.expect(b"WATCHING 2\r\nWATCHING 1\r\n")
    client.send(b"reserve\r\n")
    wait_until(lambda: process.statistic("current-waiting") == 1, "the client waits")


def waiting_with_commands(process: Process, client: Client) -> None:
    """The client waits in reserve, and more has arrived from it."""
    client.send(b"watch nothing\r\nignore default\r\n")
    client.expect(b"WATCHING 2\r\nWATCHING 1\r\n")
    client.send(b"reserve\r\nuse b\r\nreserve-with-timeout 0\r\nlist-tube-used\r\n")
    wait_until(lambda: process.statistic("current-waiting") == 1, "the client waits")


def in_line(_process: Process, client: Client) -> None:
    """A command line has begun."""
    client.send(b"use somethi")


def in_body(_process: Process, client: Client) -> None:
    """The body of a put has begun."""
    client.send(b"put 0 0 10 1000\r\n" + b"x" * 500)


def in_body_end(_process: Process, client: Client) -> None:
    """The body of a put is there but for the last byte of its CRLF."""
    client.send(b"put 0 0 10 3\r\nabc\r")


def in_swallowed_body(_process: Process, client: Client) -> None:
    """A body over the limit is being swallowed."""
    client.send(b"put 0 0 10 4294967295\r\n" + b"x" * 500)


def in_long_line(_process: Process, client: Client) -> None:
    """A line over the limit is being swallowed."""
    client.send(b"x" * 5000)


def choked(process: Process, client: Client) -> None:
    """The client does not read its replies, and the server has stopped running its commands."""
    with process.connect() as other:
        other.send(b"use bodies\r\nput 0 0 10 %d\r\n%b\r\n" % (len(BODY), BODY))
        other.expect(b"USING bodies\r\n")
        assert other.line().startswith(b"INSERTED ")
    client.ask(b"use bodies\r\n", b"USING bodies\r\n")
    before = process.statistic("cmd-peek-ready")
    client.send(b"peek-ready\r\n" * CHOKING_COUNT)
    seen = [before]

    def stands_still() -> bool:
        seen.append(process.statistic("cmd-peek-ready"))
        return len(seen) > 20 and seen[-1] == seen[-20] > before

    wait_until(stands_still, "the client's commands stop running")
    assert seen[-1] < before + CHOKING_COUNT, "the server runs every command of a client that does not read"


def quitting_choked(process: Process, client: Client) -> None:
    """The same, and the last command is quit."""
    choked(process, client)
    client.send(b"quit\r\n")


def found(job_id: int) -> bytes:
    """The reply to each peek of `choked`."""
    return b"FOUND %d %d\r\n%b\r\n" % (job_id, len(BODY), BODY)


@pytest.fixture(autouse=True)
def clean(process: Process) -> Iterator[None]:
    """Each test leaves no session, no descriptor and no job."""
    with process.connect() as client:
        wait_until(lambda: client.statistic("current-connections") == 1, "those of the test before are closed")
        before = process.descriptor_count()
    yield
    wait_until(lambda: process.statistic("current-connections") == 1, "its sessions are closed")
    with process.connect() as client:
        wait_until(lambda: process.descriptor_count() == before, "its descriptors are closed")
        client.send(b"watch bodies\r\nwatch held\r\n")
        client.expect(b"WATCHING 2\r\nWATCHING 3\r\n")
        for _ in range(20):
            client.send(b"reserve-with-timeout 0\r\n")
            if (line := client.line()) == b"TIMED_OUT\r\n":
                break
            client.take(int(line.split()[2]) + 2)
            client.ask(b"delete %b\r\n" % line.split()[1], b"DELETED\r\n")
        for state in ("urgent", "ready", "reserved", "delayed", "buried"):
            assert client.statistic(f"current-jobs-{state}") == 0


HALF_CLOSED: list[tuple[Callable[[Process, Client], None], bytes]] = [
    (nothing, b""),
    (waiting, b"TIMED_OUT\r\n"),
    (waiting_with_commands, b"TIMED_OUT\r\nUSING b\r\nTIMED_OUT\r\nUSING b\r\n"),
    (in_line, b""),
    (in_body, b""),
    (in_body_end, b""),
    (in_swallowed_body, b""),
    (in_long_line, b""),
]


@pytest.mark.parametrize(("state", "reply"), HALF_CLOSED, ids=lambda value: getattr(value, "__name__", ""))
def test_half_close_answers_what_was_sent(
    process: Process, state: Callable[[Process, Client], None], reply: bytes
) -> None:
    puts = process.statistic("total-jobs")
    with process.connect() as client:
        state(process, client)
        client.half_close()
        assert client.rest() == reply
    assert process.statistic("total-jobs") == puts


@pytest.mark.parametrize("state", [choked, quitting_choked])
def test_half_close_while_output_is_choked_loses_no_reply(
    process: Process, state: Callable[[Process, Client], None]
) -> None:
    with process.connect() as client:
        state(process, client)
        client.half_close()
        job_id = process.statistic("total-jobs")
        for _ in range(CHOKING_COUNT):
            client.expect(found(job_id))
        assert client.rest() == b""


def test_half_close_behind_many_commands_answers_them_all(process: Process) -> None:
    count = 20_000  # Many turns of commands.
    with process.connect() as client:
        with process.frozen():
            sent = client.send_while_possible(b"list-tube-used\r\n" * count)
            client.half_close()
        assert client.rest() == b"USING default\r\n" * (sent // 16)


def test_half_close_lets_a_reserve_take_what_is_ready(process: Process) -> None:
    job_id = process.statistic("total-jobs") + 1
    with process.connect() as client:
        with process.frozen():
            client.send(b"use held\r\nwatch held\r\nput 0 0 10 1\r\nx\r\nreserve\r\nreserve\r\ndelete %d\r\n" % job_id)
            client.half_close()
        reserved = b"RESERVED %d 1\r\nx\r\n" % job_id
        wanted = b"USING held\r\nWATCHING 2\r\nINSERTED %d\r\n%bTIMED_OUT\r\nDELETED\r\n" % (job_id, reserved)
        assert client.rest() == wanted


RESET: list[Callable[[Process, Client], None]] = [
    nothing,
    waiting,
    waiting_with_commands,
    in_line,
    in_body,
    in_body_end,
    in_swallowed_body,
    in_long_line,
    choked,
    quitting_choked,
]


@pytest.mark.parametrize("state", RESET)
@pytest.mark.parametrize("how", [Client.reset, lambda client: client.socket.close()], ids=["reset", "close"])
def test_lost_connection_leaves_nothing(
    process: Process, state: Callable[[Process, Client], None], how: Callable[[Client], None]
) -> None:
    puts = process.statistic("total-jobs")
    client = process.connect()
    state(process, client)
    how(client)
    wait_until(lambda: process.statistic("current-connections") == 1, "the session is closed")
    assert process.statistic("current-waiting") == 0
    assert process.statistic("total-jobs") == puts + (state in (choked, quitting_choked))


@pytest.mark.parametrize("how", [Client.reset, lambda client: client.socket.close(), Client.half_close])
def test_lost_connection_gives_back_what_it_held(process: Process, how: Callable[[Client], None]) -> None:
    with process.connect() as holder, process.connect() as other:
        holder.send(b"use held\r\nwatch held\r\nput 0 0 100 1\r\nx\r\nreserve\r\n")
        holder.expect(b"USING held\r\nWATCHING 2\r\n")
        job_id = int(holder.line().split()[1])
        holder.expect(b"RESERVED %d 1\r\nx\r\n" % job_id)
        other.ask(b"watch held\r\n", b"WATCHING 2\r\n")
        other.send(b"reserve\r\n")
        how(holder)
        other.expect(b"RESERVED %d 1\r\nx\r\n" % job_id)


def test_connections_lost_before_they_are_accepted(process: Process) -> None:
    with process.frozen():
        for _ in range(50):
            process.connect(wait_accepted=False).reset()
            process.connect(wait_accepted=False).socket.close()
    with process.connect() as client:
        client.ask(b"use a\r\n", b"USING a\r\n")


def test_lost_put_takes_no_id(process: Process) -> None:
    before = process.statistic("total-jobs")
    for _ in range(20):
        client = process.connect()
        in_body(process, client)
        client.reset()
    with process.connect() as client:
        client.send(b"use held\r\nput 0 0 10 1\r\nx\r\n")
        client.expect(b"USING held\r\nINSERTED %d\r\n" % (before + 1))
