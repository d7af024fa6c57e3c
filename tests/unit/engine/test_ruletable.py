"""Of the rules that are set, those of a tube's name apply to it, else those of the longest prefix."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.engine import Engine
from beanpole.engine.limits import NAMES_PER_TURN
from beanpole.server.connection import Connection

TUBES = 6 * NAMES_PER_TURN

names = st.text("ab", min_size=1, max_size=6)
patterns = st.one_of(names, st.text("ab", max_size=6).map(lambda text: text + "*"))


def applying(there: set[str], name: str) -> str | None:
    """The pattern whose rules apply."""
    prefixes = [each for each in there if each.endswith("*") and name.startswith(each[:-1])]
    return name if name in there else max(prefixes, key=len, default=None)


@given(st.lists(st.tuples(patterns, st.booleans(), names), max_size=40))
def test_name_then_longest_prefix_applies(steps: list[tuple[str, bool, str]]) -> None:
    client = Connection(Engine(), 0)
    there: set[str] = set()
    for pattern, drops, name in steps:
        client.receive(
            0, f"drop-rules {pattern}\r\n".encode() if drops else f"set-rules {pattern} 11\r\nattempts: 2\r\n".encode()
        )
        there = there - {pattern} if drops else there | {pattern}
        client.take_output()
        client.receive(0, f"get-rules {name}\r\n".encode())
        found, wanted = client.take_output().decode(), applying(there, name)
        assert found == "NOT_FOUND\r\n" if wanted is None else f'pattern: "{wanted}"' in found


def test_rules_reach_every_tube_though_their_client_is_gone_a_piece_in_each_tick() -> None:
    engine = Engine()
    client = Connection(engine, 1)
    for number in range(TUBES):
        client.receive(1, b"watch t%d\r\n" % number)
        client.take_output()
    rude = Connection(engine, 1)
    rude.receive(1, b"set-rules * 11\r\nattempts: 3\r\n")
    rude.close(1)
    with_rules = [sum(tube.rules is not None for tube in engine.tube_list)]
    while 0 <= engine.next_deadline_ns <= 1:
        engine.tick(1)
        with_rules.append(sum(tube.rules is not None for tube in engine.tube_list))
    assert with_rules[-1] == TUBES + 1
    assert len(with_rules) > 2
    assert max(later - sooner for sooner, later in pairwise(with_rules)) <= NAMES_PER_TURN
