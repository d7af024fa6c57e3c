"""The picture in the documentation shows what `top` looks like today."""

import pytest

from tests.unit.monitor.picture import FILE, picture

pytestmark = pytest.mark.repository


def test_picture_is_of_today() -> None:
    assert FILE.read_text() == picture(), "python -m tests.unit.monitor.picture > docs/top.svg"
