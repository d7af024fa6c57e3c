"""Turns of a server whose connections have users."""

from beanpole.engine.engine import Engine
from beanpole.engine.state.user import User
from beanpole.log.log import Log
from beanpole.protocol.rights import Grants
from beanpole.server.turn import Turn
from tests.unit.server.memory_transport import MemoryTransport


def test_a_thousand_connections_of_a_user_weigh_as_much_as_one_of_another() -> None:
    """Also of commands that are cheap: each user has an equal part of every turn."""
    log = Log()
    turn = Turn(Engine(now_ns=1, records=log.records), log)
    turn.by_user = True
    many, one = User(b"many"), User(b"one")
    for user in (many, one):
        user.grant(Grants({}), admin=True, stats=False)
    crowd = [MemoryTransport(turn, user=many) for _ in range(1_000)]
    alone = MemoryTransport(turn, user=one)
    for transport in crowd:
        transport.arrive(b"list-tube-used\r\n" * 100)
    alone.arrive(b"list-tube-used\r\n" * 100_000)
    for now_ns in range(2, 12):
        turn.run(now_ns)
    of_many = sum(transport.output.count(b"USING ") for transport in crowd)
    of_one = alone.output.count(b"USING ")
    assert 0.8 <= of_one / of_many <= 1.25
