"""The pytest plugin: fixtures for tests of programs that use a queue. pytest finds it by itself.

It is imported with every run of pytest, so it imports the rest only for a test that asks for it.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beanpole.testing import FakeServer


@pytest.fixture
def beanpole_server() -> "Iterator[FakeServer]":
    """A running :class:`beanpole.testing.FakeServer` of the test's own, with all commands."""
    from beanpole.testing import FakeServer  # noqa: PLC0415 - see above

    with FakeServer() as server:
        yield server
