"""docs/wal-format.md is true: its sizes are those of the program, and its example decodes as it says."""

import re
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from beanpole.cli.main import cli
from beanpole.log.crc32c import checksum, table_checksum
from beanpole.log.format import VERSION, Kind
from beanpole.log.reader import read_header

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGE = (ROOT / "docs/wal-format.md").read_text()


def block(title: str) -> str:
    """A block of the page."""
    found = re.search(rf'^```text title="{title}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no block {title}"
    return found[1]


def test_kinds() -> None:
    documented = {name: int(number) for number, name in re.findall(r"^### (\d+) ([A-Z]+):", PAGE, re.MULTILINE)}
    assert documented == {name: int(kind) for name, kind in Kind.__members__.items()}
    assert f"version of the format: {VERSION} |" in PAGE


def test_fields_follow_each_other() -> None:
    """In each table, an offset is the one before and the size of the type before."""
    sizes = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i64": 8}
    for table in re.findall(r"^\| Offset \| Type \| Field \|\n\|--:\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        expected = None
        for offset, kind in re.findall(r"^\| (\d+) \| ([^|]*) \|", table, re.MULTILINE):
            assert expected in {None, int(offset)}, table
            found = re.match(r"(\d+) bytes", kind)
            size = sizes.get(kind) or (int(found[1]) if found else None)
            expected = int(offset) + size if size else None


def test_checksum() -> None:
    assert checksum(b"123456789") == 0xE3069283
    for size in range(300):
        data = Random(size).randbytes(size)
        assert checksum(data) == table_checksum(data)
    assert "0xE3069283" in PAGE


def test_example(tmp_path: Path) -> None:
    rows = [line.split(maxsplit=1) for line in block("hex").splitlines()]
    assert [int(offset, 16) for offset, _ in rows] == list(range(0, 16 * len(rows), 16))
    data = b"".join(bytes.fromhex(text) for _, text in rows)
    assert read_header(data)[:2] == (1, 1)
    (tmp_path / "segment.0000000001").write_bytes(data)
    result = CliRunner().invoke(cli, ["wal", "dump", "--bodies", str(tmp_path)], standalone_mode=False)
    assert result.return_value == 0
    assert result.output == block("dump")
    result = CliRunner().invoke(cli, ["wal", "check", str(tmp_path)], standalone_mode=False)
    assert "Nothing is wrong" in result.output
