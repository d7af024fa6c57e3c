"""Of the rules that are set, those of a tube's name apply to it, else those of the longest prefix."""

from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

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
