"""The benchmark is compiled in a checkout only; where just the wheel is tested there is none."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
IS_CHECKOUT = HERE.parents[2].joinpath("compiling.py").exists()

collect_ignore_glob = [] if IS_CHECKOUT else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these with the tests of the checkout."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.repository)
