"""Disks for tests: one that obeys switches, and one that is small."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.shim import Switches, compile_shim
from tests.durability.small_disk import SmallDisk, small_disk

SMALL_DISK_BYTES = 1 << 20


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def switches(shim: Path, tmp_path: Path) -> Switches:
    """The switches of this test's disk."""
    folder = tmp_path / "switches"
    folder.mkdir()
    return Switches(shim, folder)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    with small_disk(mount_point, SMALL_DISK_BYTES) as made:
        yield made
