"""The picture in the documentation shows what `top` looks like today."""

import pytest

from tests.unit.observe.picture import FILE, picture

pytestmark = pytest.mark.repository


def test_picture_is_of_today() -> None:
    assert FILE.read_text() == picture(), "python -m tests.unit.observe.picture > docs/top.svg"
