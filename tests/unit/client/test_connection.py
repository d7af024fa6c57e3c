"""Connections that break, servers that are silent or confused: nothing is done twice, and nothing hangs."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beanpole import (
    ArgumentError,
    Backoff,
    BatchError,
    CannotConnectError,
    Client,
    ConnectionLostError,
    NoReplyError,
    NotFoundError,
    Pool,
    TimedOutError,
    TooManyTubesError,
    UnexpectedReplyError,
)
from tests.unit.client.peer import ALIVE, ASK, CLOSE, NONE, RESET, SILENCE, Maker, Peer, Steps

PUT = b"put 65536 0 60 1\r\nx\r\n"
SOON = Backoff(attempts=3, first_s=0.001)


def test_nothing_connects_before_it_is_needed(make: Maker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        make(listener.getsockname())
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_mistakes_are_told_without_a_connection(make: Maker) -> None:
    client = make(("127.0.0.1", 1))
    with pytest.raises(ArgumentError):
        client.use("a b")
    with pytest.raises(ArgumentError):
        client.put("", priority=-1)
    with pytest.raises(ArgumentError):
        client.using("-")
    with pytest.raises(ArgumentError):
        make(("127.0.0.1", 1), watch=[])
    with pytest.raises(ArgumentError):
        make(("127.0.0.1", 1), use="a b")


def test_cannot_connect_after_the_last_attempt(make: Maker) -> None:
    with (
        socket.socket() as taken,
        pytest.raises(CannotConnectError, match=r"can't connect to beanstalk://127\.0\.0\.1") as caught,
    ):
        taken.bind(("127.0.0.1", 0))  # and not listening: nobody else gets it
        make(taken.getsockname(), backoff=SOON).put("x")
    assert not caught.value.outcome_unknown


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_unknown_outcome_is_told_and_not_repeated(make: Maker, end: object) -> None:
    with make.to_peer([(PUT, end)], [(b"stats-job 1\r\n", b"NOT_FOUND\r\n")], backoff=SOON) as client:
        with pytest.raises(ConnectionLostError) as caught:
            client.put("x")
        assert caught.value.outcome_unknown
        with pytest.raises(NotFoundError):
            client.stats_job(1)


def test_unknown_outcome_is_repeated_when_asked(make: Maker) -> None:
    with make.to_peer([(PUT, CLOSE)], [(PUT, RESET)], [(PUT, b"INSERTED 5\r\n")], backoff=SOON, repeat=True) as client:
        assert client.put("x") == 5


def test_repeating_ends(make: Maker) -> None:
    with Peer([(PUT, CLOSE)], [(PUT, CLOSE)], [(PUT, CLOSE)]) as peer, pytest.raises(ConnectionLostError):
        make(peer.address, backoff=SOON, repeat=True).put("x")


def test_reconnect_restores_use_and_watch(make: Maker) -> None:
    greeting = b"use a\r\nwatch b\r\nwatch c\r\nignore default\r\n"
    answer = b"USING a\r\nWATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\n"
    first = [
        (b"use a\r\n", b"USING a\r\n"),
        (b"watch b\r\n", b"WATCHING 2\r\n"),
        (b"watch c\r\n", b"WATCHING 3\r\n"),
        (b"ignore default\r\n", b"WATCHING 2\r\n"),
        (PUT, CLOSE),
    ]
    with make.to_peer(first, [(greeting, answer), (PUT, b"INSERTED 1\r\n")]) as client:
        client.use("a")
        assert [client.watch("b"), client.watch("c"), client.ignore("default")] == [2, 3, 2]
        with pytest.raises(ConnectionLostError):
            client.put("x")
        assert client.put("x") == 1


def test_a_connection_that_ended_while_idle_is_made_again() -> None:
    with Peer([(PUT, b"INSERTED 1\r\n"), (b"", CLOSE)], [ALIVE, (PUT, b"INSERTED 2\r\n")]) as peer:
        client = Client(peer.address)
        assert client.put("x") == 1
        link = client._link
        assert link is not None
        link._poll.poll(20_000)
        assert client.put("x") == 2
        client.close()


def test_silence_ends_the_connection(make: Maker) -> None:
    with Peer([(PUT, SILENCE)]) as peer:
        with pytest.raises(NoReplyError) as caught:
            make(peer.address, timeout=0.05).put("x")
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.outcome_unknown


def test_silence_in_the_greeting_counts_as_not_connected(make: Maker) -> None:
    with Peer([(b"use a\r\n", SILENCE)]) as peer, pytest.raises(CannotConnectError):
        make(peer.address, use="a", timeout=0.05, backoff=Backoff(attempts=1)).put("x")


def test_reserve_may_wait_longer_than_the_timeout(make: Maker) -> None:
    # enough for what is asked first, on any machine
    with (
        make.to_peer([*make.asking_first, (b"reserve-with-timeout 1\r\n", SILENCE)], timeout=1, patience=0) as client,
        pytest.raises(NoReplyError, match=r"within 2(\.0)? s"),
    ):
        client.reserve(1)


def test_an_answer_may_come_later_than_the_timeout(make: Maker) -> None:
    late = threading.Event()
    # enough for what is asked first, on any machine
    with make.to_peer(
        [*make.asking_first, (b"reserve-with-timeout 10000\r\n", late), (PUT, SILENCE)], timeout=1
    ) as client:
        threading.Timer(1.2, late.set).start()
        with pytest.raises(TimedOutError):
            client.reserve(10_000)
        with pytest.raises(NoReplyError, match=r"within 1(\.0)? s"):
            client.put("x")


@pytest.mark.parametrize("answer", [b"HELLO\r\n", b"DELETED\r\n", b"INSERTED 1\r\nDELETED\r\n"])
def test_confused_server_loses_the_connection(make: Maker, answer: bytes) -> None:
    with make.to_peer([(PUT, answer)], [(PUT, b"INSERTED 2\r\n")]) as client:
        with pytest.raises(UnexpectedReplyError):
            client.put("x")
            client.put("x")  # an answer too many may arrive a moment later
        assert client.put("x") == 2


@pytest.mark.parametrize(
    ("sent", "answer", "call"),
    [
        (PUT * 2, b"INSERTED 1\r\nDELETED\r\n", lambda client: client.put_many(["x", "x"])),
        (ASK + b"delete 1\r\ndelete 2\r\n", b"DELETED\r\nTOUCHED\r\n", lambda client: client.delete_many([1, 2])),
        (
            ASK + b"reserve-with-timeout 0\r\n" * 2,
            b"RESERVED 1 1\r\nx\r\nTOUCHED\r\n",
            lambda client: client.reserve_many(2, 0),
        ),
    ],
)
def test_batch_with_an_answer_to_something_else_ends_the_connection(
    make: Maker, sent: bytes, answer: bytes, call: Callable[[Any], object]
) -> None:
    """Which command each answer belongs to is not known any more."""
    script = [NONE] if sent.startswith(ASK) else []
    with make.to_peer([*script, (sent.removeprefix(ASK), answer)], [*script, (PUT, b"INSERTED 2\r\n")]) as client:
        with pytest.raises(UnexpectedReplyError):
            call(client)
        assert client.put("x") == 2


def test_put_into_a_tube_is_one_round_trip_and_remembered(make: Maker) -> None:
    script = [
        (b"use emails\r\n" + PUT, b"USING emails\r\nINSERTED 1\r\n"),
        (PUT, b"INSERTED 2\r\n"),
        (b"use default\r\n" + PUT, b"USING default\r\nINSERTED 3\r\n"),
        (b"use other\r\npeek-ready\r\n", b"USING other\r\nNOT_FOUND\r\n"),
        (b"peek-delayed\r\nuse third\r\npeek-buried\r\n", b"NOT_FOUND\r\nUSING third\r\nFOUND 7 1\r\nx\r\n"),
        (b"stats-job 9\r\n", b"NOT_FOUND\r\n"),
        (b"use default\r\nkick 1\r\n", b"USING default\r\nKICKED 0\r\n"),
    ]
    with make.to_peer(script) as client:
        assert [client.put("x", tube="emails"), client.put("x", tube="emails"), client.put("x")] == [1, 2, 3]
        with client.using("other"), pytest.raises(NotFoundError):
            client.peek_ready()
        with client.pipeline(raise_errors=False) as asked:
            peeks = asked.peek_delayed(tube="other"), asked.peek_buried(tube="third")
        assert isinstance(peeks[0].error, NotFoundError)
        assert peeks[1].result().id == 7
        with pytest.raises(NotFoundError):
            client.stats_job(9)
        assert client.kick(1) == 0


def test_use_holds_for_what_follows_in_a_pipeline(make: Maker) -> None:
    script = [(b"use a\r\n" + PUT + b"use b\r\n" + PUT, b"USING a\r\nINSERTED 1\r\nUSING b\r\nINSERTED 2\r\n")]
    with make.to_peer([*script, (PUT, b"INSERTED 3\r\n")]) as client:
        with client.pipeline() as p:
            p.use("a")
            p.put("x")
            p.use("b")
            p.put("x")
        assert client.put("x") == 3


def test_use_that_fails_ends_the_connection(make: Maker) -> None:
    script: Steps = [(b"use a\r\n", b"OUT_OF_MEMORY\r\n")]
    with make.to_peer(script, [(b"use a\r\n", b"USING a\r\n"), (PUT, b"INSERTED 1\r\n")]) as client:
        with pytest.raises(TooManyTubesError):
            client.use("a")
        assert client.put("x") == 1


def test_batch_that_breaks_says_what_is_known(make: Maker) -> None:
    sent = PUT * 3
    script = [(b"put 65536 0 60 1\r\n", b""), (sent[18:], b"INSERTED 1\r\nDRAINING\r\n"), (b"", CLOSE)]
    with Peer(script) as peer, pytest.raises(BatchError) as caught:
        make(peer.address).put_many(["x", "x", "x"])
    results = caught.value.results
    assert results[0] == 1
    assert [type(each).__name__ for each in results[1:]] == ["DrainingError", "ConnectionLostError"]
    assert isinstance(caught.value.__cause__, ConnectionLostError)


def test_pipeline_that_breaks_keeps_what_was_answered(make: Maker) -> None:
    with Peer([(PUT + PUT, b"INSERTED 1\r\n"), (b"", CLOSE)]) as peer:
        pipeline = make(peer.address).pipeline()
        first, second = pipeline.put("x"), pipeline.put("x")
        with pytest.raises(ConnectionLostError):
            pipeline.flush()
        assert first.result() == 1
        with pytest.raises(ConnectionLostError):
            second.result()


def test_given_socket_is_used_once(make: Maker) -> None:
    with Peer([(PUT, b"INSERTED 1\r\n"), (PUT, CLOSE)]) as peer:
        client = make(socket.create_connection(peer.address), backoff=Backoff(attempts=1))
        assert client.put("x") == 1
        with pytest.raises(ConnectionLostError):
            client.put("x")
        with pytest.raises(CannotConnectError):
            client.put("x")


# --- Several addresses ------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody() -> Iterator[tuple[str, int]]:
    """An address at which nobody listens, and which nobody else gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()


def test_the_next_address_is_tried_when_one_refuses(make: Maker, nobody: tuple[str, int]) -> None:
    with Peer([ALIVE, (PUT, b"INSERTED 1\r\n")]) as peer:
        client = make([nobody, peer.address], backoff=Backoff(attempts=1))
        assert client.put("x") == 1
        assert (client.address.host, client.address.port) == peer.address
        client.close()


def test_the_next_address_is_tried_when_one_closes_or_is_silent(make: Maker) -> None:
    greeting = b"use a\r\nwatch b\r\nignore default\r\n"
    replies = b"USING a\r\nWATCHING 2\r\nWATCHING 1\r\n"
    with (
        Peer([(greeting, CLOSE)]) as one,
        Peer([(greeting, SILENCE)]) as two,
        Peer([(greeting, replies), (PUT, b"INSERTED 1\r\n")]) as three,
    ):
        given = [one.address, two.address, three.address]
        client = make(given, use="a", watch="b", timeout=1, backoff=Backoff(attempts=1))
        assert client.put("x") == 1
        client.close()


def test_one_that_accepts_and_cannot_serve_costs_no_command(make: Maker) -> None:
    with Peer([(ALIVE[0], CLOSE)]) as one, Peer([ALIVE, (PUT, b"INSERTED 7\r\n")]) as two:
        client = make([one.address, two.address])
        assert client.put("x") == 7
        client.close()


def test_after_a_loss_it_goes_on_at_the_next_address_with_its_tubes(make: Maker) -> None:
    first: Steps = [ALIVE, (b"use a\r\n", b"USING a\r\n"), (b"watch b\r\n", b"WATCHING 2\r\n"), (PUT, CLOSE)]
    restored = (b"use a\r\nwatch b\r\n", b"USING a\r\nWATCHING 2\r\n")
    with Peer(first) as one, Peer([restored, (PUT, b"INSERTED 7\r\n"), (PUT, b"INSERTED 8\r\n")]) as two:
        client = make([one.address, two.address], backoff=SOON)
        client.use("a")
        client.watch("b")
        with pytest.raises(ConnectionLostError) as caught:
            client.put("x")
        assert caught.value.outcome_unknown
        assert [client.put("x"), client.put("x")] == [7, 8]
        client.close()


def test_a_command_that_may_be_repeated_is_sent_to_the_next_address(make: Maker) -> None:
    with Peer([ALIVE, (PUT, RESET)]) as one, Peer([ALIVE, (PUT, b"INSERTED 7\r\n")]) as two:
        client = make([one.address, two.address], repeat=True, backoff=SOON)
        assert client.put("x") == 7
        client.close()


def test_the_next_address_comes_first_though_the_lost_one_would_serve(make: Maker) -> None:
    """After a batch that broke as after a command."""
    first: list[Steps] = [[ALIVE, (PUT + PUT, CLOSE)], [ALIVE, (PUT, b"INSERTED 3\r\n")]]
    with Peer(*first) as one, Peer([ALIVE, (PUT, b"INSERTED 2\r\n"), (PUT, CLOSE)]) as two:
        client = make([one.address, two.address], backoff=SOON)
        with pytest.raises(BatchError):
            client.put_many(["x", "x"])
        assert client.put("x") == 2
        with pytest.raises(ConnectionLostError):
            client.put("x")
        assert client.put("x") == 3
        client.close()


def test_it_stays_at_an_address_that_it_leaves_by_itself(make: Maker) -> None:
    once: Steps = [ALIVE, (PUT, b"INSERTED 1\r\n")]
    with Peer(once, once) as peer, socket.create_server(("127.0.0.1", 0)) as other:
        client = make([peer.address, other.getsockname()])
        client.put("x")
        client.close()
        client.put("x")
        client.close()


def test_the_error_names_every_address_that_was_tried(make: Maker, nobody: tuple[str, int]) -> None:
    client = make([nobody, ("localhost", 1), "unix:/nowhere/socket"], backoff=SOON)
    with pytest.raises(CannotConnectError) as caught:
        client.put("x")
    said = str(caught.value)
    assert said.startswith(f"can't connect to beanstalk://127.0.0.1:{nobody[1]}: ")
    assert "; to beanstalk://localhost:1: " in said
    assert "; to unix:/nowhere/socket: " in said


def test_every_round_of_attempts_tries_all_addresses(make: Maker) -> None:
    script: list[Steps] = [[(b"use a\r\n", CLOSE)]] * 3
    with Peer(*script) as one, Peer(*script) as two, pytest.raises(CannotConnectError):
        make([one.address, two.address], use="a", backoff=SOON).connect()


def test_clients_of_a_pool_know_which_node_is_gone(nobody: tuple[str, int]) -> None:
    with Peer([ALIVE, (PUT, b"INSERTED 1\r\n")], [ALIVE, (b"use a\r\n", b"USING a\r\n")]) as peer:
        url = f"beanstalk://127.0.0.1:{nobody[1]},127.0.0.1:{peer.address[1]}"
        with Pool([url]) as pool:
            assert pool.put("x") == 1
            with pool.client() as first:
                first.close()
                with pool.client(url) as other:
                    assert other.address.port == peer.address[1]
                    other.use("a")


def test_a_signal_in_a_round_trip_is_handled_and_the_reply_still_comes() -> None:
    handled = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())

    def job() -> bytes:
        while not handled.is_set():  # the client waits in the kernel; the handler runs in its thread, between two waits
            os.kill(os.getpid(), signal.SIGUSR1)
            handled.wait(0.01)
        return b"RESERVED 5 1\r\nx\r\n"

    try:
        with Peer([ALIVE, (b"reserve\r\n", job)]) as peer, Client(peer.address) as client:
            assert client.reserve().id == 5
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_raises_ends_a_round_trip_and_its_connection() -> None:
    class Interrupted(Exception):  # noqa: N818 - stands for a signal's
        pass

    waits = threading.Event()

    def interrupt(*_: object) -> None:
        raise Interrupted

    def silence() -> object:
        waits.set()
        return SILENCE

    before = signal.signal(signal.SIGUSR1, interrupt)

    def kill() -> None:
        waits.wait(20)
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=kill)
    try:
        with (
            Peer([ALIVE, (b"reserve\r\n", silence)], [(b"delete 1\r\n", b"DELETED\r\n")]) as peer,
            Client(peer.address) as client,
        ):
            thread.start()
            with pytest.raises(Interrupted):
                client.reserve()
            client.delete(1)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_between_sending_and_waiting_is_handled_before_the_reply() -> None:
    """It came to another thread, while this one could not send: nothing ends the wait for the reply."""
    handled = threading.Event()
    in_time: list[bool] = []
    mine, theirs = socket.socketpair()
    mine.setblocking(False)
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += mine.send(b"x" * 1000)

    def serve() -> None:
        time.sleep(0.2)  # the client waits for room; if it does not yet, it notices the signal all the same
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        wanted = filled + len(b"delete 1\r\n")
        while wanted > 0:
            wanted -= len(theirs.recv(1 << 20))
        in_time.append(handled.wait(10))
        theirs.sendall(b"DELETED\r\n")

    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    thread = threading.Thread(target=serve)
    try:
        thread.start()
        with Client(mine, None) as client:
            client.delete(1)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
        theirs.close()
    assert in_time == [True]


def test_a_reply_in_pieces_and_a_command_that_is_sent_in_pieces() -> None:
    body = b"y" * 16_000  # with its line below what is sent at once
    mine, theirs = socket.socketpair()
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    received: list[bytes] = []

    def serve() -> None:
        wanted = len(b"put 65536 0 60 16000\r\n") + len(body) + 2
        while sum(map(len, received)) < wanted:
            received.append(theirs.recv(100))
        for piece in (b"INSER", b"TED", b" 7\r", b"\n"):
            theirs.sendall(piece)

    thread = threading.Thread(target=serve)
    thread.start()
    with Client(mine, None) as client:
        assert client.put(body) == 7
    thread.join()
    theirs.close()
    assert b"".join(received) == b"put 65536 0 60 16000\r\n" + body + b"\r\n"


def test_a_server_that_takes_nothing_is_silent() -> None:
    mine, theirs = socket.socketpair()
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    with Client(mine, None, timeout=0.05) as client, pytest.raises(NoReplyError):
        client.put(b"y" * 16_000)
    theirs.close()
