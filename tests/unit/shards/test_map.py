"""Where tubes are: draws that never change, tubes that stay where they are, and places under several maps."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from beanpole.address import Address
from beanpole.shards.map import Places, Shard, ShardMap, home_of

DOCS = Path(__file__).parents[3] / "docs/shards.md"
TUBES = [b"tube-%d" % number for number in range(20_000)]


def shard(name: str, *numbers: int, weight: int = 1) -> Shard:
    return Shard(name, numbers, Address(f"{name}.example"), weight)


A, B, C = shard("a", 0), shard("b", 1, 5), shard("c", 2)


def made(
    *shards: Shard,
    epoch: int = 1,
    tubes: dict[bytes, tuple[Shard, ...]] | None = None,
    everywhere: tuple[bytes, ...] = (),
    before: tuple[ShardMap, ...] = (),
) -> ShardMap:
    return ShardMap("m.toml", epoch, {each.name: each for each in shards}, tubes or {}, frozenset(everywhere), before)


def names(shards: tuple[Shard, ...]) -> list[str]:
    return [each.name for each in shards]


# --- The draws --------------------------------------------------------------------------------------------------------


def test_draws_are_those_of_the_docs() -> None:
    """The table has tube, number, weight and the draw that counts, in hex."""
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \| (\d+) \| `([0-9a-f]{8})` \|$", DOCS.read_text(), re.MULTILINE)
    assert len(rows) >= 6
    for name, number, weight, draw in rows:
        assert shard("x", int(number), weight=int(weight)).draw(name.encode()) == int(draw, 16)


def test_a_draw_is_made_of_the_digest() -> None:
    digest = hashlib.blake2b(b"mail 7").hexdigest()
    drawn = [digest[i : i + 8] for i in range(0, 128, 8)]
    for weight in range(1, 17):
        assert shard("x", 7, weight=weight).draw(b"mail") == int(max(drawn[:weight]), 16)


def test_tubes_are_shared_by_weight() -> None:
    """Each share is within 3 % of what the weights say, and a shard without weight gets nothing."""
    shards = [shard("a", 0), shard("b", 1, weight=2), shard("c", 1023, weight=5), shard("d", 3, weight=0)]
    counts = Counter(home_of(each, shards).name for each in TUBES)
    assert set(counts) == {"a", "b", "c"}
    for each in shards[:3]:
        assert counts[each.name] == pytest.approx(len(TUBES) * each.weight / 8, rel=0.03)


@pytest.mark.parametrize("grown", [[A, B, C, shard("d", 3)], [A, B, shard("c", 2, weight=3)]])
def test_who_grows_takes_from_all_and_nothing_else_moves(grown: list[Shard]) -> None:
    moved: Counter[str] = Counter()
    for each in TUBES:
        before, after = home_of(each, [A, B, C]), home_of(each, grown)
        if before.name != after.name:
            assert after is grown[-1]
            moved[before.name] += 1
    others = {each.name for each in (A, B, C)} - {grown[-1].name}
    assert set(moved) == others
    assert max(moved.values()) < 1.1 * min(moved.values())


class Even(Shard):
    """A shard that draws what all others do."""

    def draw(self, name: bytes) -> int:
        return len(name)


def test_of_equal_draws_the_smallest_number_counts() -> None:
    shards = [Even("x", (4, 0), Address()), Even("y", (3, 9), Address()), Even("z", (7,), Address())]
    assert home_of(b"mail", shards).name == "y"


# --- Names ------------------------------------------------------------------------------------------------------------


def test_the_name_counts_else_the_longest_prefix() -> None:
    tubes = {b"mail": (A,), b"mail-*": (B,), b"mail-slow-*": (C,), b"m*": (A, B), b"mail-slow-x": (B, C)}
    found = made(A, B, C, tubes=tubes)
    patterns = {
        b"mail": b"mail",
        b"mail-": b"mail-*",
        b"mail-slow": b"mail-*",
        b"mail-slow-": b"mail-slow-*",
        b"mail-slow-x": b"mail-slow-x",
        b"mail-slow-xx": b"mail-slow-*",
        b"m": b"m*",
        b"n": None,
    }
    for name, pattern in patterns.items():
        assert found.pattern_of(name) == pattern
        assert found.homes(name) == (tubes[pattern] if pattern else (home_of(name, [A, B, C]),))
    every = made(A, B, C, tubes={b"*": (C,), b"mail": (A,)})
    assert (names(every.homes(b"other")), names(every.homes(b"mail"))) == (["c"], ["a"])


def test_what_stands_before_the_first_semicolon_says_where_a_tube_is() -> None:
    places = Places(made(A, B, C, tubes={b"mail": (B,)}))
    assert names(places.place(b"mail;42").homes) == names(places.place(b"mail;4;2").homes) == ["b"]
    assert places.place(b";mail").homes == (home_of(b";mail", [A, B, C]),)


# --- Places -----------------------------------------------------------------------------------------------------------


def test_jobs_are_looked_for_at_the_homes_of_all_maps() -> None:
    oldest = made(A, C, tubes={b"x": (C,), b"y": (A,)})
    older = made(A, B, C, epoch=2, tubes={b"x": (A, B), b"y": (A,)})
    places = Places(made(A, B, C, epoch=3, tubes={b"x": (B,), b"y": (A,)}, before=(older, oldest)))
    assert (names(places.place(b"x").homes), names(places.place(b"x").shards)) == (["b"], ["b", "a", "c"])
    assert places.place(b"y").shards == places.place(b"y").homes == (A,)


def test_shards_are_those_of_the_newest_map() -> None:
    """A shard that had another weight, or fewer numbers, before is the same shard."""
    older = made(shard("b", 1), tubes={b"x": (shard("b", 1),)})
    emptied = shard("b", 1, 5, weight=0)
    place = Places(made(A, emptied, epoch=2, before=(older,))).place(b"x")
    assert place.homes == (A,)
    assert place.shards == (A, emptied)


@pytest.mark.parametrize("where", ["map", "before", "rules"])
def test_what_is_everywhere_is_looked_for_on_all_shards(where: str) -> None:
    given = (b"dead",) if where != "rules" else ()
    older = made(A, B, everywhere=given if where == "before" else ())
    newest = made(A, B, C, epoch=2, everywhere=given if where == "map" else (), before=(older,))
    places = Places(newest, [b"dead;1"] if where == "rules" else [])
    found = places.place(b"dead")
    assert found.homes == (home_of(b"dead", [A, B, C]),)
    wanted = {"a", "b"} | set(names(found.homes)) if where == "before" else {"a", "b", "c"}
    assert set(names(found.shards)) == wanted
    assert found.shards[0] is found.homes[0]


def test_memory_of_places_is_bounded() -> None:
    places = Places(made(A), kept_max=100)
    for number in range(110):
        places.place(b"%d" % number)
    assert len(places._known) == 10
    assert places.place(b"109") is places.place(b"109")


# --- Ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "name"),
    [
        (0, None),
        (1, "a"),
        (2**43, "a"),
        (2**43 + 1, "b"),
        (2 * 2**43, "b"),
        (5 * 2**43 + 1, "b"),
        (6 * 2**43, "b"),
        (6 * 2**43 + 1, None),
        (2**64 - 1, None),
    ],
)
def test_an_id_leads_to_who_has_given_it_out(id: int, name: str | None) -> None:
    found = Places(made(A, B, C)).shard_of_id(id)
    assert (found and found.name) == name
