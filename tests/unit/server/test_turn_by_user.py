"""Turns of a server whose connections have users."""

from beanpole.engine.commands.table import cost_ns_of
from beanpole.engine.engine import Engine
from beanpole.engine.limits import MOVES_PER_AUDIT
from beanpole.engine.state.user import User
from beanpole.log.log import Log
from beanpole.protocol.commands import Verb
from beanpole.protocol.extensions import ACCESS_FORMATS
from beanpole.protocol.rights import Grants
from beanpole.server import limits
from beanpole.server.turn import Turn
from tests.unit.server.memory_transport import MemoryTransport

COMMAND = b"list-tube-used\r\n"
COST_NS = cost_ns_of(Verb.LIST_TUBE_USED) + len(COMMAND) * limits.INPUT_BYTE_COST_NS


class House:
    """A server with a crowd of one user's connections, which send without an end, and one connection of another's."""

    def __init__(self, crowd: int = 1_000) -> None:
        log = Log()
        self.turn = Turn(Engine(now_ns=1, records=log.records), log)
        self.turn.by_user = True
        many = self.user(b"many")
        self.crowd = [MemoryTransport(self.turn, user=many) for _ in range(crowd)]
        self.alone = MemoryTransport(self.turn, user=self.user(b"one"))
        self.turn_count = 0
        for each in self.crowd:
            each.arrive(*[COMMAND * 100] * 100)

    def user(self, name: bytes) -> User:
        user = User(name)
        user.grant(Grants({}), admin=True, stats=False)
        return user

    def run(self, turn_count: int) -> tuple[int, int]:
        """Run turns; return how many commands of the crowd, and of the other, ran in them."""
        before = self.counts()
        for _ in range(turn_count):
            self.turn_count += 1
            self.turn.run(1 + self.turn_count)
        after = self.counts()
        return after[0] - before[0], after[1] - before[1]

    def counts(self) -> tuple[int, int]:
        return sum(each.output.count(b"USING ") for each in self.crowd), self.alone.output.count(b"USING ")


def test_a_thousand_connections_of_a_user_weigh_as_much_as_one_of_another() -> None:
    """Also of commands that are cheap: each user has an equal part of every turn."""
    house = House()
    house.alone.arrive(*[COMMAND * 400] * 1_000)
    of_many, of_one = house.run(200)
    assert 0.8 <= of_one / of_many <= 1.25


def test_what_a_user_takes_beyond_its_part_counts_in_the_next_turns() -> None:
    house = House()
    house.alone.arrive(*[COMMAND * 4_000] * 200)  # to receive as much takes more than a part
    of_many, of_one = house.run(400)
    assert 0.8 <= of_one / of_many <= 1.25


def test_turns_are_short_for_who_waits_for_answers_beside_a_flood() -> None:
    house = House()
    house.run(1)
    for _ in range(10):
        house.alone.arrive(COMMAND)
        of_many, of_one = house.run(1)
        assert (of_many * COST_NS <= 2 * limits.PART_COST_NS, of_one) == (True, 1)


def test_turns_are_long_again_when_nobody_else_has_had_something_to_run_for_a_while() -> None:
    house = House()
    house.alone.arrive(COMMAND)
    house.run(1 + limits.SHARED_TURNS)
    of_many, _ = house.run(1)
    assert of_many * COST_NS >= limits.TURN_COST_NS // 2


def test_to_look_at_many_users_costs_a_share_of_a_turn() -> None:
    ran = []
    for number in (limits.SHARE_COST_NS // limits.MOVED_COST_NS * 2, 100):
        house = House(crowd=0)
        users = [house.user(b"u") for _ in range(number)]
        house.turn.engine.users = users.copy
        asking = MemoryTransport(house.turn, user=users[0], served=ACCESS_FORMATS[b"list-rights"])
        asking.arrive(b"list-rights\r\n" * 10)
        house.run(2)
        ran.append(asking.output.count(b"user: "))
    assert ran[0] == 2 < ran[1]


def test_commands_of_which_the_audit_takes_note_weigh_as_much_as_that_takes() -> None:
    house = House(crowd=1)
    lines: list[object] = []
    house.turn.engine.audit = lambda *line: lines.append(line)
    house.alone.arrive(b"kick 1\r\n" * 1_000)
    house.run(1)
    assert 1 < len(lines) <= limits.PART_COST_NS // (MOVES_PER_AUDIT * limits.MOVED_COST_NS)
