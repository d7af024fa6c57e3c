"""What tests of a front share."""

from collections.abc import Iterator

import pytest

from tests.unit.front.house import House, served


@pytest.fixture
def house() -> Iterator[House]:
    with served() as found:
        yield found
