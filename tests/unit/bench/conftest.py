"""The benchmark is compiled in a checkout only; where just the wheel is tested there is none."""

from pathlib import Path

import pytest

IS_CHECKOUT = Path(__file__).parents[3].joinpath("compiling.py").exists()

collect_ignore_glob = [] if IS_CHECKOUT else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these with the tests of the checkout."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.repository)
