"""Files of maps: what is wrong is said with its line, and a file that changes gives another map or is refused."""

from pathlib import Path

import pytest

from beanpole.errors import MapError
from beanpole.shards.file import BEFORE_MAX, MapFile, load
from beanpole.shards.map import Places

WHOLE = """\
epoch = 7
before = ["old/shards-6.toml"]
everywhere = ["failed", "failed"]

[shard]
a = { number = 0, nodes = "10.0.0.1:11300,10.0.0.2" }
b = { number = [1, 5], nodes = "unix:/run/b", weight = 2 }
c = { number = 2, nodes = "[::1]:1", weight = 0 }

[tubes]
"mail-*" = "a"
clicks = ["a", "b"]
"""

SHARDS = """
[shard]
a = { number = 0, nodes = "a" }
b = { number = 1, nodes = "b" }
c = { number = 2, nodes = "c" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    return tmp_path


def write(path: Path, epoch: int = 1, before: str = "", more: str = SHARDS) -> Path:
    path.write_text(f"epoch = {epoch}\nbefore = [{before}]\n{more}")
    return path


def test_every_key_is_read(folder: Path) -> None:
    (folder / "shards.toml").write_text(WHOLE)
    write(folder / "old/shards-6.toml", 6, '"shards-5.toml"')
    write(folder / "old/shards-5.toml", 5, more=SHARDS.replace("a = { number = 0", "a = { weight = 16, number = 0"))
    found = load(folder / "shards.toml")
    assert (found.file, found.epoch, found.everywhere) == (str(folder / "shards.toml"), 7, frozenset([b"failed"]))
    assert {each.name: (each.numbers, str(each.nodes), each.weight) for each in found.shards.values()} == {
        "a": ((0,), "beanstalk://10.0.0.1:11300,10.0.0.2:11300", 1),
        "b": ((1, 5), "unix:/run/b", 2),
        "c": ((2,), "beanstalk://[::1]:1", 0),
    }
    assert {key: [each.name for each in shards] for key, shards in found.tubes.items()} == {
        b"mail-*": ["a"],
        b"clicks": ["a", "b"],
    }
    assert [(each.epoch, each.shards["a"].weight, each.before) for each in found.before] == [(6, 1, ()), (5, 16, ())]
    assert Places(found).shard_of_id(5 * 2**43 + 1) is found.shards["b"]


def test_the_example_of_the_docs_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/shards.md").read_text().partition("\n## A map\n")[2]
    text = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "shards.toml").write_text(text)
    (tmp_path / "shards-6.toml").write_text(text.replace("epoch = 7", "epoch = 6").replace('"shards-6.toml"', ""))
    assert [each.epoch for each in load(tmp_path / "shards.toml").before] == [6]


NODES = ', nodes = "n"'
ONE = "[shard]\na = { number = 0, nodes = 'n' }\n"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("epoch = \n", 1, "this is no TOML: "),
        ("epoch = 1\n[shard]\na = {}\na = {}\n", 4, "this is no TOML: "),
        ("", 0, "epoch: a number from 1 to "),
        ("epoch = 0\n", 1, "epoch: a number from 1 to "),
        ("epoch = true\n", 1, "epoch: a whole number is wanted"),
        (f"epoch = {10**18}\n", 1, "epoch: a number from 1 to "),
        ("epoch = 1\n\nshards = {}\n", 3, "there is no key 'shards': a map has epoch, before, "),
        ("epoch = 1\n", 0, "shard: there is none"),
        ("epoch = 1\n[shard]\n", 2, "shard: there is none"),
        ("epoch = 1\nshard = 1\n", 2, "shard: a table is wanted"),
        ("epoch = 1\n[shard]\na = 1\n", 3, "a: a table is wanted, as { number = 0, "),
        ("epoch = 1\n[shard]\n'a b' = {}\n", 3, "shard: a name has 1 to 64 letters"),
        ("epoch = 1\n[shard]\na = { node = 1 }\n", 3, "a: there is no key 'node': a shard has number, nodes, weight"),
        ("epoch = 1\n[shard.a]\nnumber = 0\n", 2, "a: it has no nodes"),
        ("epoch = 1\n[shard.a]\nnodes = 'n'\n", 2, "a: it has no number"),
        (f"epoch = 1\n[shard]\na = {{ number = 1024{NODES} }}\n", 3, "a: number: from 0 to 1023 is wanted"),
        (f"epoch = 1\n[shard]\na = {{ number = false{NODES} }}\n", 3, "a: number: from 0 to 1023 is wanted"),
        (f"epoch = 1\n[shard]\na = {{ number = []{NODES} }}\n", 3, "a: number: from 0 to 1023 is wanted"),
        (f"epoch = 1\n[shard]\na = {{ number = [0, 0]{NODES} }}\n", 3, "a: number: from 0 to 1023 is wanted"),
        (f"epoch = 1\n[shard]\na = {{ number = [3, 2]{NODES} }}\n", 3, "a: number: from 0 to 1023 is wanted"),
        (f"epoch = 1\n{ONE}b = {{ number = [0, 1], nodes = 'm' }}\n", 4, "b: number 0 is that of a"),
        (
            f"epoch = 1\n{ONE}b = {{ number = 1, nodes = 'm,n:11300' }}\n",
            4,
            "b: the node beanstalk://n:11300 is one of a",
        ),
        ("epoch = 1\n[shard.a]\nnumber = 0\nnodes = ''\n", 4, "a: nodes: an address is "),
        ("epoch = 1\n[shard.a]\nnumber = 0\nnodes = 1\n", 4, "a: nodes: an address is "),
        ("epoch = 1\n[shard.a]\nnumber = 0\nnodes = 'n:x'\n", 4, "a: nodes: 'n:x' is no address"),
        (f"epoch = 1\n{ONE}[shard.b]\nnumber = 1\nnodes = 'm'\nweight = 17\n", 7, "b: weight: a number from 0 to 16"),
        ("epoch = 1\n[shard.a]\nnumber = 0\nweight = 0\nnodes = 'n'\n", 2, "shard: every one has weight 0"),
        (f"epoch = 1\neverywhere = 'x'\n{ONE}", 2, "everywhere: a list is wanted"),
        (f"epoch = 1\neverywhere = [1]\n{ONE}", 2, "everywhere: a list of strings is wanted"),
        (f"epoch = 1\neverywhere = ['-x']\n{ONE}", 2, "everywhere: a tube's name has 1 to 200 "),
        (f"epoch = 1\ntubes = 1\n{ONE}", 2, "tubes: a table is wanted"),
        (f"epoch = 1\n{ONE}[tubes]\nmail.x = 'a'\n", 5, 'tubes: a name with a dot stands in quotes: "mail.'),
        (f"epoch = 1\n{ONE}[tubes]\n'm*x' = 'a'\n", 5, "tubes: a tube's name has 1 to 200 "),
        (f"epoch = 1\n{ONE}[tubes]\n'' = 'a'\n", 5, "tubes: a tube's name has 1 to 200 "),
        (f"epoch = 1\n{ONE}[tubes]\nx = 'a'\n'm;*' = 'a'\n", 6, "tubes: what stands before the first ; says where"),
        (f"epoch = 1\n{ONE}[tubes]\nm = 1\n", 5, "m: the name of a shard is wanted"),
        (f"epoch = 1\n{ONE}[tubes]\nm = []\n", 5, "m: the name of a shard is wanted"),
        (f"epoch = 1\n{ONE}[tubes]\nm = 'z'\n", 5, "m: there is no shard 'z'"),
        (f"epoch = 1\n{ONE}[tubes]\nm = ['a', 'a']\n", 5, "m: a shard is there twice"),
        (
            f"epoch = 1\n{ONE}[shard.b]\nnumber = 1\nnodes = 'm'\nweight = 0\n[tubes]\nm = 'b'\n",
            9,
            "m: shard b has weight 0",
        ),
        (f"epoch = 1\nbefore = [1]\n{ONE}", 2, "before: a list of strings is wanted"),
        (f"epoch = 1\nbefore = ['none.toml']\n{ONE}", 2, "before: there is no file "),
        (f"epoch = 1\nbefore = ['map.toml']\n{ONE}", 2, "before: map.toml has epoch 1; it must be below 1"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(MapError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:{line}: {why}" if line else f"{path}: {why}")
    assert "\n" not in str(caught.value)


def test_no_more_than_64_shards(tmp_path: Path) -> None:
    lines = [f's{number} = {{ number = {number}, nodes = "h{number}" }}\n' for number in range(65)]
    path = tmp_path / "map.toml"
    path.write_text("epoch = 1\n[shard]\n" + "".join(lines[:64]))
    assert len(load(path).shards) == 64
    path.write_text("epoch = 1\n[shard]\n" + "".join(lines))
    with pytest.raises(MapError, match=r":67: shard: more than 64 shards"):
        load(path)


def test_what_can_not_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(MapError, match=r"none: No such file"):
        load(tmp_path / "none")
    (tmp_path / "map").write_bytes(b"\xff")
    with pytest.raises(MapError, match=r"map: this is no UTF-8"):
        load(tmp_path / "map")


# --- Maps before ------------------------------------------------------------------------------------------------------


def test_what_is_wrong_before_is_said_where_it_stands(folder: Path) -> None:
    path = write(folder / "map.toml", 7, '"old/6.toml"')
    write(folder / "old/6.toml", 6, '"5.toml"')
    with pytest.raises(MapError, match=r"old/6\.toml:2: before: there is no file .*old/5\.toml"):
        load(path)
    write(folder / "old/5.toml", 6)
    with pytest.raises(MapError, match=r"old/6\.toml:2: before: 5\.toml has epoch 6; it must be below 6"):
        load(path)
    write(folder / "old/5.toml", 5, more="[shard]\n")
    with pytest.raises(MapError, match=r"old/5\.toml:3: shard: there is none"):
        load(path)


def test_maps_before_are_bounded(tmp_path: Path) -> None:
    for epoch in range(1, BEFORE_MAX + 3):
        write(tmp_path / f"{epoch}.toml", epoch, f'"{epoch - 1}.toml"' if epoch > 1 else "")
    assert len(load(tmp_path / f"{BEFORE_MAX + 1}.toml").before) == BEFORE_MAX
    with pytest.raises(MapError, match=rf"before: with those that they name these are more than {BEFORE_MAX} maps"):
        load(tmp_path / f"{BEFORE_MAX + 2}.toml")


@pytest.mark.parametrize(
    ("now", "line", "why"),
    [
        ("[shard]\na = { number = 0, nodes = 'a' }\nb = { number = 1, nodes = 'b' }\n", 2, "has a shard c: keep it"),
        (SHARDS.replace("number = 2", "number = 3"), 7, "c: number: .* has 2; a shard keeps its numbers"),
        (SHARDS.replace("number = 2", "number = [3, 4]"), 7, "c: number: .* has 2; a shard keeps its numbers"),
    ],
)
def test_a_map_has_the_shards_of_those_before(tmp_path: Path, now: str, line: int, why: str) -> None:
    write(tmp_path / "1.toml", 1)
    path = write(tmp_path / "2.toml", 2, '"1.toml"', now)
    with pytest.raises(MapError, match=rf"2\.toml:{line}: .*{why}"):
        load(path)
    write(path, 2, '"1.toml"', SHARDS.replace("number = 2", "weight = 0, number = [2, 3]"))
    assert load(path).shards["c"].numbers == (2, 3)


# --- Reading again ----------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "map.toml", 7)


def test_a_file_counts_when_it_is_the_same_at_two_looks(path: Path) -> None:
    file = MapFile(path)
    assert file.look() is None
    write(path, 8, more="[shard")  # it is being written
    assert file.look() is None
    write(path, 8)
    assert file.look() is None
    found = file.look()
    assert found is file.map
    assert found.epoch == 8
    assert file.look() is None


def test_a_file_is_read_at_once_if_that_is_asked(path: Path) -> None:
    file = MapFile(path)
    assert file.look(at_once=True) is None
    write(path, 8)
    found = file.look(at_once=True)
    assert found is not None
    assert found.epoch == 8
    assert (file.look(), file.look()) == (None, None)


@pytest.mark.parametrize("epoch", [6, 7])
def test_another_map_needs_a_greater_epoch(path: Path, epoch: int) -> None:
    file = MapFile(path)
    write(path, epoch, more=SHARDS.replace('nodes = "a"', 'nodes = "x"'))
    with pytest.raises(MapError, match=r"map\.toml:1: epoch: another map has 7 and is in use"):
        file.look(at_once=True)
    assert file.map.shards["a"].nodes.host == "a"


def test_a_shard_keeps_its_number(path: Path) -> None:
    file = MapFile(path)
    path.write_text(path.read_text().replace("epoch = 7", "epoch = 8").replace("number = 0", "number = 9"))
    with pytest.raises(MapError, match="number: the map in use has 0; a shard keeps its numbers"):
        file.look(at_once=True)


def test_other_words_for_the_same_map_are_no_other_map(path: Path) -> None:
    file = MapFile(path)
    write(path, 7, more=f"# a comment\n{SHARDS}")
    assert file.look(at_once=True) is None


def test_a_map_before_that_changes_is_another_map(path: Path) -> None:
    older = write(path.parent / "6.toml", 6)
    write(path, 7, '"6.toml"')
    file = MapFile(path)
    write(older, 6, more=SHARDS + "[tubes]\nx = 'a'\n")
    assert file.look() is None
    with pytest.raises(MapError, match="epoch: another map has 7 and is in use"):
        file.look()


def test_what_is_wrong_is_said_once_and_looked_at_again(path: Path) -> None:
    file = MapFile(path)
    write(path, 8, '"7.toml"')
    assert file.look() is None
    with pytest.raises(MapError, match=r"there is no file .*7\.toml"):
        file.look()
    assert (file.look(), file.look()) == (None, None)
    with pytest.raises(MapError, match=r"there is no file .*7\.toml"):
        file.look(at_once=True)
    write(path.parent / "7.toml", 7)
    found = file.look()
    assert found is not None
    assert [each.epoch for each in found.before] == [7]
