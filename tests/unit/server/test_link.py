"""The server's end of a link: what each frame does, whom a channel may hold up, and what the end of a link means."""

import tracemalloc
from contextlib import closing

import pytest

from beanpole.log.log import Log
from beanpole.protocol.limits import LINK_DATA_BYTES_MAX, LINK_ROOM_BYTES
from beanpole.protocol.link import first_line, frame
from beanpole.server import limits
from tests.unit.server.links import CLOSE, DATA, DRAIN, FIN, OPEN, PEER, PING, PUT, ROOM, Front, House, linked, room

TOKEN = b"0123456789abcdef" * 2


class LateLog(Log):
    """A log that makes nothing durable until it is let."""

    durable_index = 0


# --- the bytes of a client ----------------------------------------


def test_frames_that_come_byte_by_byte_do_the_same() -> None:
    stream = frame(1, OPEN, PEER) + frame(1, DATA, PUT[:5]) + frame(0, PING, b"\0") + frame(1, DATA, PUT[5:] + PUT)
    stream += frame(2, OPEN) + frame(2, DATA, b"reserve\r\nquit\r\n") + frame(1, FIN)
    for size in (1, 7, len(stream)):
        with linked() as (house, front):
            for at in range(0, len(stream), size):
                front.send_bytes(stream[at : at + size])
            data: dict[int, bytes] = {}
            others = []
            for channel, kind, payload in front.receive():
                if kind == DATA:
                    data[channel] = data.get(channel, b"") + payload
                else:
                    others.append((channel, kind, payload))
            assert data == {1: b"INSERTED 1\r\nINSERTED 2\r\n", 2: b"RESERVED 1 1\r\nx\r\n"}
            assert sorted(others) == [(0, PING, b"\1"), (1, CLOSE, b""), (2, CLOSE, b"")]
            assert house.observer.ended == []


def test_first_line_that_is_none_ends_the_link() -> None:
    for line in (b"beanpole-link 2 - 0 0\r\n", b"beanpole-link 1 - 0\r\n"):
        for asks, name in ((False, "front 2"), (True, "unix")):
            with linked() as (house, _):
                front = Front(house, "front 2", opened=False, asks=asks)
                front.send_bytes(line)
                assert front.receive_bytes() == b"UNKNOWN_COMMAND\r\n"
                assert not front.is_open
                assert house.observer.ended == [(name, "first line", 0)]


def test_clients_are_named_as_themselves() -> None:
    with linked() as (_house, front):
        front.open(1, PUT + b"reserve\r\n", PEER)
        front.open(2, b"list-sessions\r\n")
        listed = front.heard(2)
        assert b'peer: "10.0.0.7:40112"' in listed
        assert b'peer: "front 1"' in listed, "one of which nothing was said"
        assert b"10.0.0.7:40112" in front.say(2, b"explain 1\r\n")


def test_the_epoch_of_the_map_may_change_with_any_client() -> None:
    with linked() as (house, front):
        for about, epoch in ((b"map 7\n", "7"), (PEER, "7"), (b"map 12\n" + PEER, "12"), (b"map x\n", "12")):
            front.open(1, b"quit\r\n", about)
            assert house.clients.link_facts()["link-map-epoch"] == epoch
            front.send((1, CLOSE, b"\0"))


def test_connections_that_come_and_go_are_reported_where_that_is_asked_for() -> None:
    with linked() as (house, front):
        house.clients.observe_connections = True
        front.open(1, b"quit\r\n", PEER)
        assert house.observer.lines == [("opened", "front 1", 1, "10.0.0.7:40112"), ("closed", "front 1", 1)]


def test_reply_waits_for_the_log_and_the_answer_to_a_ping_does_not() -> None:
    log = LateLog()
    with linked(log=log) as (house, front):
        front.open(1, PUT)
        front.open(2, b"use t\r\n")
        front.send((0, PING, b"\0"))
        assert front.receive() == [(2, DATA, b"USING t\r\n"), (0, PING, b"\1")]
        log.durable_index = log.records.index
        house.clients.send_held()
        assert front.receive() == [(1, DATA, b"INSERTED 1\r\n")]


# --- room ----------------------------------------


def test_client_that_reads_nothing_fills_its_room_and_holds_up_nobody() -> None:
    with linked(body_bytes_max=1 << 20) as (_house, front):
        body = bytes(100_000)
        front.open(1, b"put 0 0 60 100000\r\n" + body + b"\r\n")
        front.open(2)
        assert front.heard(1) == b"INSERTED 1\r\n"
        front.send((1, DATA, b"peek 1\r\n" * 50))
        got = len(front.heard(1))
        assert got == LINK_ROOM_BYTES - len(b"INSERTED 1\r\n"), "its room is full"
        for _ in range(5):
            assert front.say(2, b"use t\r\n") == b"USING t\r\n"
        while got < 50 * (100_000 + 18):
            front.send((1, ROOM, room(70_000)))
            more = len(front.heard(1))
            assert more == min(70_000, 50 * (100_000 + 18) - got)
            got += more


def test_body_of_any_size_passes_through_the_room_of_a_channel() -> None:
    size = 5_000_000
    with linked(body_bytes_max=size) as (house, front):
        front.open(1, b"put 0 0 60 %d\r\n" % size)
        sent, allowed = 0, LINK_ROOM_BYTES - len(b"put 0 0 60 %d\r\n" % size)
        while sent < size + 2:
            piece = min(allowed, LINK_DATA_BYTES_MAX, size + 2 - sent)
            assert piece, "the server gives no room"
            front.send((1, DATA, (bytes(size) + b"\r\n")[sent : sent + piece]))
            sent += piece
            allowed -= piece
            for channel, kind, payload in front.receive():
                if kind == ROOM:
                    allowed += int.from_bytes(payload, "little")
                else:
                    assert (channel, payload) == (1, b"INSERTED 1\r\n")
            assert allowed <= LINK_ROOM_BYTES
        assert sent == size + 2
        assert house.engine.jobs.count == 1


def test_input_of_a_session_that_waits_is_kept_up_to_its_room() -> None:
    with linked() as (_house, front):
        front.open(1, b"reserve\r\n")
        line = b"use t\r\n"
        sent = 0
        while sent + 7_000 + 9 <= LINK_ROOM_BYTES:
            front.send((1, DATA, line * 1000))
            sent += 7_000
        assert front.receive() == []
        front.send((1, ROOM, room(2 * LINK_ROOM_BYTES)))
        front.open(2, PUT)
        replies = front.heard(1)
        assert replies == b"RESERVED 1 1\r\nx\r\n" + b"USING t\r\n" * (sent // 7)
        assert sum(int.from_bytes(each[2], "little") for each in front.receive() if each[1] == ROOM) >= 65_536


def test_channels_with_much_to_send_take_turns() -> None:
    """While the front reads slowly, none of them is a frame and what fits into the kernel behind another."""
    with linked(body_bytes_max=1 << 20) as (house, front):
        front.open(1, b"put 0 0 60 200000\r\n" + bytes(200_000) + b"\r\n")
        front.receive()
        channels = range(2, 22)
        for each in channels:
            front.open(each, b"peek 1\r\n" * 4)
        order = []
        while front.link.channel_count:
            frames = front.receive()
            if not frames:
                break
            order += [channel for channel, kind, payload in frames if kind == DATA and len(payload) > 1000]
            house.run()
        assert set(order) == set(channels)
        firsts = [order.index(each) for each in channels]
        assert max(firsts) < 2 * len(channels), "each has its first frame before any has many"
        assert max(order.count(each) for each in channels) == 4, "what its room allows"


def test_client_that_floods_does_not_hold_up_one_that_asks_now_and_then() -> None:
    """Of what both have sent, a turn serves the quiet one, and only a share of the other."""
    with linked() as (house, front):
        front.open(1)
        front.open(2)
        flood = b"".join(frame(1, DATA, b"stats\r\n" * 4000) for _ in range(4))
        front.socket.send(flood + frame(2, DATA, b"use t\r\n"))
        house.clients.run()
        house.clients.run()
        assert (2, DATA, b"USING t\r\n") in front.receive()
        assert house.turn.busy, "the other has not all its replies"


# --- the end of a channel ----------------------------------------


def test_fin_lets_run_what_was_sent_and_closes() -> None:
    with linked() as (_house, front):
        front.open(1, PUT * 3)
        front.send((1, DATA, b"use t\r\nput 0 0"), (1, FIN))
        assert front.receive() == [
            (1, DATA, b"INSERTED 1\r\nINSERTED 2\r\nINSERTED 3\r\n"),
            (1, DATA, b"USING t\r\n"),
            (1, CLOSE, b""),
        ]
        assert front.link.channel_count == 1
        front.send((1, CLOSE, b"\0"))
        assert front.link.channel_count == 0


def test_fin_answers_a_reserve_that_waits() -> None:
    with linked() as (_house, front):
        front.open(1, b"reserve\r\nuse t\r\n")
        front.send((1, FIN))
        assert front.receive() == [(1, DATA, b"TIMED_OUT\r\nUSING t\r\n"), (1, CLOSE, b"")]


@pytest.mark.parametrize("before", [b"", b"reserve\r\n", b"reserve-with-timeout 0\r\nreserve\r\nuse t\r\n", b"put 0 0"])
def test_close_by_the_front_ends_the_session_whatever_it_does(before: bytes) -> None:
    with linked() as (house, front):
        front.open(1, before)
        front.receive()
        front.send((1, CLOSE, b"\0"))
        assert front.receive() == [(1, CLOSE, b"")]
        assert (front.link.channel_count, house.engine.session_count) == (0, 0)


def test_close_of_a_client_that_does_not_read_ends_its_session() -> None:
    with linked() as (house, front):
        front.open(1, b"stats\r\n" * 2000)
        front.send((1, CLOSE, b"\0"))
        assert front.receive()[-1] == (1, CLOSE, b"")
        assert house.engine.session_count == 0


def test_close_by_the_server_comes_behind_the_replies_and_what_the_front_sent_meanwhile_is_passed_over() -> None:
    with linked() as (house, front):
        front.open(1, PUT + b"quit\r\n" + PUT)
        assert front.receive() == [(1, DATA, b"INSERTED 1\r\n"), (1, CLOSE, b"")]
        front.send((1, DATA, PUT), (1, ROOM, room(5)), (1, FIN), (1, CLOSE, b"\0"))
        assert front.receive() == []
        assert house.observer.ended == []
        front.open(1, b"peek 2\r\n")
        assert front.receive() == [(1, DATA, b"NOT_FOUND\r\n")], "the number is free, and nothing of that ran"


def test_jobs_of_a_client_that_is_gone_are_ready_when_the_server_says_close() -> None:
    with linked() as (house, front):
        count = 6000
        front.open(1, PUT * count)
        front.heard(1)
        for _ in range(count // 1000):
            front.say(1, b"reserve-many 1000 0\r\n")
        front.receive()
        front.socket.send(frame(1, CLOSE, b"\0"))
        left = [count]
        while not (frames := front.receive()):
            assert left[-1], "it is not told"
            house.clients.run()
            left.append(house.facts["current-jobs-reserved"])
        assert len(set(left)) > 2, "they do not come back at once"
        assert frames == [(1, CLOSE, b"")]
        assert house.facts["current-jobs-ready"] == count


@pytest.mark.parametrize(("who", "lost"), [(0, 0), (1, 1)])
def test_session_that_may_return_is_waited_for_if_the_front_closes_it(who: int, lost: int) -> None:
    with linked() as (house, front):
        front.open(1, PUT + b"keep-session 60 " + TOKEN + b"\r\nreserve\r\n")
        front.send((1, CLOSE, bytes([who])))
        house.pass_time(limits.LINGER_S)
        assert house.facts["sessions-lost"] == lost
        assert house.facts["current-jobs-reserved"] == lost


def test_channels_of_a_worker_that_is_killed_are_not_given_each_others_jobs() -> None:
    """The end of the one that holds a job waits a moment for the end of that which waits for one."""
    with linked() as (house, front):
        front.open(1, b"keep-session 60 " + TOKEN + b"\r\n" + PUT + b"reserve\r\n")
        front.open(2, b"reserve\r\n")
        front.receive()
        front.send((1, CLOSE, b"\0"))
        front.send((2, CLOSE, b"\0"))
        house.pass_time(limits.LINGER_S)
        assert [each for each in front.receive() if each[1] == DATA] == []
        front.open(3, b"stats-job 1\r\n")
        assert b"reserves: 1\n" in front.heard(3)


# --- the end of the link ----------------------------------------


def test_link_that_ends_gives_back_jobs_and_waits_for_sessions_that_may_return() -> None:
    with linked() as (house, front):
        other = Front(house, "front 2")
        front.open(1, PUT * 3 + b"reserve\r\n", PEER)
        front.open(2, b"keep-session 60 " + TOKEN + b"\r\nreserve\r\n")
        front.open(3, b"keep-session 60 " + TOKEN[::-1] + b"\r\nreserve\r\n")
        front.send((3, FIN))  # this one was ended by its client
        other.open(1, b"reserve\r\n")
        front.close()
        house.run()
        house.pass_time(limits.LINGER_S)
        assert house.observer.ended == [("front 1", "ended", 3)]
        assert other.heard(1) == b"RESERVED 1 1\r\nx\r\n"
        facts = house.facts
        assert (facts["current-jobs-reserved"], facts["current-jobs-ready"], facts["sessions-lost"]) == (2, 1, 1)
        assert other.say(1, b"keep-session 60 " + TOKEN + b"\r\n") == b"KEPT 2 1 2\r\n"


def test_many_sessions_of_a_link_end_in_turns_that_are_bounded_and_none_is_given_a_job() -> None:
    count = 3000
    with linked() as (house, front):
        other = Front(house, "front 2")
        other.open(1, PUT * 100)
        other.open(2)
        other.receive()
        front.send(*[each for at in range(1, count + 1) for each in ((at, OPEN), (at, DATA, b"reserve\r\n"))])
        front.receive()
        front.close()
        turns, left = 0, house.engine.session_count
        while left > 2:
            house.clients.run()
            assert left - house.engine.session_count <= limits.TURN_COST_NS // limits.SERVE_COST_NS
            if left > 1000:
                other.socket.send(frame(2, DATA, b"use t\r\n"))
                house.clients.run()
                assert other.heard(2) == b"USING t\r\n", "a connected client is still served"
            left = house.engine.session_count
            turns += 1
        assert turns >= 2, "they end in pieces"
        assert house.facts["current-jobs-ready"] == 100
        assert b"reserves: 1\n" in other.say(2, b"stats-job 1\r\n"), (
            "nobody on the link that ended was given it a second time"
        )


def test_link_on_which_nothing_comes_is_asked_and_ends() -> None:
    with linked() as (house, front):
        house.pass_time(1)
        assert front.receive() == [], "something came in this second: the first line"
        house.pass_time(1)
        house.pass_time(1)
        assert front.receive() == [(0, PING, b"\0")] * 2
        front.send((0, PING, b"\1"))
        house.pass_time(1)
        for _ in range(3):
            assert house.observer.ended == []
            house.pass_time(1)
        assert house.observer.ended == [("front 1", "silent", 0)]
        assert house.loop.calls == []


def test_server_says_which_shard_it_is() -> None:
    with closing(House()) as house:
        house.engine.set_shard((3, 17))
        front = Front(house, opened=False)
        front.send_bytes(first_line())
        assert front.receive_bytes() == b"LINK 3 65535\r\n"


def test_front_that_is_being_started_may_take_its_time() -> None:
    with closing(House()) as house:
        front = Front(house, opened=False)
        for _ in range(10):
            house.pass_time(1)
        front.send_bytes(first_line())
        assert front.receive_bytes() == b"LINK 0 65535\r\n"


def test_front_that_hangs_when_it_is_started_is_given_up() -> None:
    with closing(House()) as house:
        Front(house, opened=False)
        for _ in range(30):
            assert house.observer.ended == []
            house.pass_time(1)
        assert house.observer.ended == [("front 1", "silent", 0)]


def test_drain_closes_each_client_when_it_needs_nothing() -> None:
    with linked() as (house, front):
        front.open(1, PUT * 2)
        front.open(2, b"reserve\r\n")  # holds a job
        front.open(3, b"watch t\r\nignore default\r\nreserve-with-timeout 5\r\n")
        front.open(4, b"put 0 0")  # has begun a command
        front.open(5, b"reserve\r\nwatch t\r\nignore default\r\nreserve\r\n")  # holds a job, and waits
        front.receive()
        front.send((0, DRAIN))
        assert front.receive() == [(1, CLOSE, b"")]
        front.send((2, DATA, b"touch 1\r\n"))
        assert front.receive() == [(2, DATA, b"TOUCHED\r\n")]
        front.send((2, DATA, b"delete 1\r\nuse t\r\nput 0 0 60 1\r\ny\r\n"))
        assert sorted(front.receive()) == [
            (2, DATA, b"DELETED\r\nUSING t\r\nINSERTED 3\r\n"),
            (2, CLOSE, b""),
            (3, DATA, b"RESERVED 3 1\r\ny\r\n"),
        ]
        front.send((3, DATA, b"delete 3\r\n"), (4, DATA, b" 60 1\r\nz\r\n"))
        assert sorted(front.receive()) == [
            (3, DATA, b"DELETED\r\n"),
            (3, CLOSE, b""),
            (4, DATA, b"INSERTED 4\r\n"),
            (4, CLOSE, b""),
        ]
        assert house.observer.ended == []


def test_drain_closes_a_client_whose_time_to_run_ends() -> None:
    with linked() as (house, front):
        front.open(1, b"put 0 0 1 1\r\nx\r\nreserve\r\n")
        front.receive()
        front.send((0, DRAIN))
        house.pass_time(1)
        assert (1, CLOSE, b"") not in front.receive()
        house.pass_time(1)
        assert (1, CLOSE, b"") in front.receive()


def test_link_whose_front_takes_nothing_ends() -> None:
    with linked() as (house, _):
        front = Front(house, "front 2", output_bytes_max=2 * limits.LINK_OUTPUT_BYTES)
        for _ in range(4 * limits.LINK_OUTPUT_BYTES // 8 // 1000):
            front.send(*[each for at in range(1, 1001) for each in ((at, OPEN), (at, CLOSE, b"\0"))])
        assert house.observer.ended == [("front 2", "not read", 0)]


def test_client_costs_less_than_two_kibibytes() -> None:
    """One that has been named and waits for a job: its objects, and half a kibibyte for its replies."""
    count = 1000
    with linked() as (house, front):
        tracemalloc.start()
        try:
            front.send(*[each for at in range(1, count + 1) for each in ((at, OPEN, PEER), (at, DATA, b"reserve\r\n"))])
            cost = tracemalloc.get_traced_memory()[0] / count
        finally:
            tracemalloc.stop()
        assert house.engine.session_count == count
        assert 500 < cost + 512 < 2048
