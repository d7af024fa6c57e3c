"""What is between a front and shards: channels, room, and the ends of both, as docs/link.md says."""

from dataclasses import replace

import pytest

from beanpole.front.limits import MOVES_PER_TURN
from beanpole.front.switch import Switch
from beanpole.protocol.limits import LINK_ROOM_BYTES, LINK_ROOM_BYTES_LEAST
from beanpole.protocol.link import FrameReader, frame
from beanpole.shards.map import Places, Shard
from tests.unit.front.house import CLOSE, DATA, DRAIN, FIN, OPEN, ROOM
from tests.unit.front.shard_world import made, shard

A, B = shard("a", 0), shard("b", 1)
TWO = made(A, B, mail="a", push="b", spread="ab", default="a")
INSERTED = b"INSERTED 1\r\n"
PUT = b"put 0 0 60 1\r\nx\r\n"
ABOUT = b"peer 10.0.0.1:5\n"
Frame = tuple[int, int, bytes]


class House:
    """A switch, of which the test is the front, and the shards."""

    def __init__(self, places: Places = TWO) -> None:
        self.now_ns = 1
        self.mistakes: list[tuple[Shard, str]] = []
        self.switch = Switch(places, 65535, lambda: self.now_ns, {}, 5 * 10**9)
        self.switch.note_mistake = lambda *about: self.mistakes.append(about)
        for each in places.map.shards.values():
            self.switch.find(each)

    def say(self, number: int, kind: int, payload: bytes = b"") -> list[Frame]:
        """Send a frame as the front; return what it is sent."""
        self.switch.receive(frame(number, kind, payload))
        return self.front()

    def answer(self, shard: str, number: int, kind: int, payload: bytes = b"") -> list[Frame]:
        """Send a frame as a shard; return what the front is sent."""
        assert not self.switch.links[shard].receive(frame(number, kind, payload))
        return self.front()

    def front(self) -> list[Frame]:
        self.switch.turn()
        return frames(self.switch.take_out(), of_front=False)

    def shard(self, name: str) -> list[Frame]:
        """What a shard was sent since."""
        return frames(self.switch.links[name].take_out(), of_front=True)


def frames(data: bytes, *, of_front: bool) -> list[Frame]:
    reader = FrameReader(of_front)
    found = []
    for at in range(0, len(data), 65_000):
        reader.receive(data[at : at + 65_000])
        while (each := reader.next_frame()) is not None:
            found.append(each)
    assert reader.mistake is None
    return found


@pytest.fixture
def house() -> House:
    found = House()
    found.say(1, OPEN, ABOUT)
    return found


def test_a_channel_is_opened_for_the_first_command_for_a_shard(house: House) -> None:
    assert house.shard("a") == house.shard("b") == []
    house.say(1, DATA, b"use push\r\n" + PUT)
    assert house.shard("a") == []
    assert house.shard("b")[:1] == [(1, OPEN, ABOUT)]
    assert house.answer("b", 1, DATA, b"USING push\r\n" + INSERTED) == [(1, DATA, INSERTED)]


def test_of_one_shard_it_is_opened_at_once() -> None:
    """So it counts as a connection, as it would without a router."""
    house = House(made(A))
    house.say(1, OPEN, ABOUT)
    assert house.shard("a") == [(1, OPEN, ABOUT)]


def test_a_client_that_has_gone_is_gone_on_all_shards(house: House) -> None:
    house.say(1, DATA, b"stats\r\n")
    house.shard("a"), house.shard("b")
    assert house.say(1, CLOSE, b"\0") == [(1, CLOSE, b"")]
    assert house.shard("a") == house.shard("b") == [(1, CLOSE, b"\0")]
    assert house.answer("a", 1, DATA, b"OK 0\r\n\r\n") == []
    house.say(1, OPEN, ABOUT)
    house.say(1, DATA, PUT)
    assert house.shard("a")[0] == (2, OPEN, ABOUT)
    house.answer("a", 1, CLOSE)
    house.say(2, OPEN, ABOUT)
    house.say(2, DATA, PUT)
    assert house.shard("a")[0] == (1, OPEN, ABOUT)


def test_quit_closes_the_client_when_all_was_answered(house: House) -> None:
    assert house.say(1, DATA, PUT + b"quit\r\n") == []
    assert house.answer("a", 1, DATA, INSERTED) == [(1, DATA, INSERTED), (1, CLOSE, b"")]
    assert house.shard("a")[-1] == (1, CLOSE, b"\0")
    assert house.say(1, CLOSE, b"\0") == []
    assert not house.switch.clients


def test_input_that_ends_is_told_to_the_shard_where_a_reserve_waits(house: House) -> None:
    house.say(1, DATA, b"reserve\r\n")
    assert house.say(1, FIN) == []
    assert house.shard("a")[-1] == (1, FIN, b"\1")
    assert house.answer("a", 1, DATA, b"TIMED_OUT\r\n") == [(1, DATA, b"TIMED_OUT\r\n"), (1, CLOSE, b"")]


def test_a_client_gets_room_for_what_has_left(house: House) -> None:
    body = bytes(LINK_ROOM_BYTES_LEAST - 100)
    assert house.say(1, DATA, b"put 0 0 60 %d\r\n" % 65535) == []
    assert house.say(1, DATA, body) == []
    found = house.say(1, DATA, bytes(65535 - len(body)) + b"\r\n")
    assert [kind for _, kind, _ in found] == [ROOM]


def test_a_client_gets_no_room_while_nothing_of_it_is_run(house: House) -> None:
    house.say(1, DATA, b"reserve\r\nuse push\r\n" + PUT)
    for _ in range(3):
        assert house.say(1, DATA, b"peek 1\r\n" * 8_000) == []


def test_a_shard_is_sent_no_more_than_it_has_room_for(house: House) -> None:
    body = bytes(65_000)
    for _ in range(5):
        house.say(1, DATA, b"put 0 0 60 65000\r\n")
        house.say(1, DATA, body + b"\r\n")
    sent = sum(len(data) for _, kind, data in house.shard("a") if kind == DATA)
    assert sent == LINK_ROOM_BYTES
    house.answer("a", 1, ROOM, (100_000).to_bytes(4, "little"))
    assert sum(len(data) for _, kind, data in house.shard("a")) == 5 * (65_000 + 20) - sent


def test_a_client_that_takes_nothing_chokes_its_own_channels(house: House) -> None:
    """What came for it stays within the room of the channel, which is given again when it takes something."""
    house.say(1, DATA, b"peek 1\r\n" * 10)
    house.shard("a")
    reply = b"FOUND 1 65000\r\n" + bytes(65_000) + b"\r\n"
    passed = sum(len(data) for _ in range(5) for _, _, data in house.answer("a", 1, DATA, reply))
    assert passed == LINK_ROOM_BYTES < 5 * len(reply)
    given = sum(int.from_bytes(data, "little") for _, kind, data in house.shard("a") if kind == ROOM)
    assert given == 4 * len(reply)
    house.answer("a", 1, DATA, reply)
    assert house.shard("a") == []
    found = house.say(1, ROOM, (2 * len(reply)).to_bytes(4, "little"))
    assert sum(len(data) for _, _, data in found) == 6 * len(reply) - passed
    assert [kind for _, kind, _ in house.shard("a")] == [ROOM]


def test_a_lost_link_closes_clients_with_a_command_under_way_there_alone(house: House) -> None:
    house.say(2, OPEN, ABOUT)
    house.say(1, DATA, PUT)
    house.say(2, DATA, b"use push\r\n" + PUT)
    assert house.switch.links["b"].end() == 1
    assert house.front() == [(2, CLOSE, b"")]
    assert house.answer("a", 1, DATA, INSERTED) == [(1, DATA, INSERTED)]


def test_a_command_waits_for_a_link_and_its_client_is_closed_in_the_end(house: House) -> None:
    house.switch.links["b"].end()
    house.say(1, DATA, b"use push\r\n" + PUT)
    house.say(2, OPEN, ABOUT)
    house.now_ns += 3 * 10**9
    house.say(2, DATA, b"use push\r\n" + PUT)
    house.now_ns += 2 * 10**9
    house.switch.look_at_clock()
    assert (1, CLOSE, b"") in house.front()
    house.switch.find(B)
    house.front()
    assert house.shard("b")[0][:2] == (1, OPEN)


def test_a_shard_that_is_no_server_closes_the_client(house: House) -> None:
    house.say(1, DATA, PUT)
    assert house.answer("a", 1, DATA, b"HTTP/1.1 400 Bad Request\r\n") == [(1, CLOSE, b"")]
    assert [each for each, _ in house.mistakes] == [A]


def test_when_the_router_stops_those_are_closed_that_hold_nothing(house: House) -> None:
    house.say(2, OPEN, ABOUT)
    house.say(2, DATA, b"reserve\r\n")
    house.say(1, DATA, PUT)
    house.answer("a", 2, DATA, INSERTED)
    assert house.say(0, DRAIN) == [(1, CLOSE, b"")]
    assert house.answer("a", 1, DATA, b"TIMED_OUT\r\n") == [(2, DATA, b"TIMED_OUT\r\n")]


def test_what_the_router_itself_asks_goes_to_no_client(house: House) -> None:
    found: list[bytes] = []
    house.switch.ask(b"list-tubes\r\n", found.append)
    house.front()
    for name in "ab":
        house.answer(name, 1, DATA, b"OK 14\r\n---\n- default\n\r\n")
    assert house.front() == []
    assert found == [b"OK 14\r\n---\n- default\n\r\n"]
    assert len(house.switch.clients) == 1


def test_another_map_is_taken_up_in_pieces_and_what_it_lacks_goes_last(house: House) -> None:
    """Clients are served between two of them, also by shards that the map does not have."""
    gone: list[Shard] = []
    house.switch.note_gone = gone.append
    house.say(1, DATA, b"".join(b"watch %d\r\n" % i for i in range(MOVES_PER_TURN)))
    house.say(2, OPEN, ABOUT)
    house.switch.use(Places(replace(TWO.map, epoch=2, shards={"a": A}, tubes={b"*": (A,)})))
    assert not gone
    house.switch.receive(frame(2, DATA, PUT))
    assert (2, DATA, PUT) in house.shard("a")
    assert not gone
    house.switch.turn()
    assert gone == [B]
    assert "b" not in house.switch.links


# --- What must not end the router -------------------------------------------------------------------------------------


def test_a_shard_that_a_map_leaves_out_while_it_is_to_be_asked_is_passed_over(house: House) -> None:
    house.say(1, DATA, b"watch mail\r\nwatch push\r\nreserve\r\n")
    assert house.shard("a")[-1][2].endswith(b"reserve-with-timeout 0\r\n")
    house.switch.use(made(A))
    house.front()
    house.shard("a")
    house.answer("a", 1, DATA, b"WATCHING 2\r\nTIMED_OUT\r\nWATCHING 3\r\n")
    assert house.shard("a")[-1][2].startswith(b"reserve-many 0 ")


def test_questions_of_the_routers_own_are_each_answered_though_clients_come_and_go(house: House) -> None:
    answers: list[bytes] = []
    house.switch.ask(b"list-rules\r\n", answers.append)
    house.say(1, CLOSE, b"\0")
    house.switch.ask(b"list-rules\r\n", answers.append)
    house.front()
    for number in (1, 2):
        for name in "ab":
            house.answer(name, number, DATA, b"OK 7\r\n--- []\n\r\n")
    assert len(answers) == 2
    assert not house.switch.clients


def test_a_reply_that_makes_no_sense_to_a_gather_closes_its_client_and_is_told(house: House) -> None:
    house.say(1, DATA, b"list-sessions\r\n")
    assert house.answer("a", 1, DATA, b"OK 9\r\n---\n- x:\n\r\n") == [(1, CLOSE, b"")]
    assert [(shard, why.partition(":")[0]) for shard, why in house.mistakes] == [(A, "ValueError")]


def test_a_shard_that_takes_no_more_clients_is_not_asked_again_and_again(house: House) -> None:
    house.say(1, DATA, b"watch mail\r\nwatch push\r\nignore default\r\nreserve\r\n")
    assert house.answer("a", 1, CLOSE) == [(1, CLOSE, b"")]
