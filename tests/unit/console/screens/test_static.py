"""The files of pages."""

import pytest

from beanpole.console.screens import render


def test_a_file_has_the_address_of_its_content() -> None:
    version = render.files()["style.css"].version
    assert render.address("style.css") == f"/static/style.css?v={version}"


def test_a_file_that_there_is_not_is_a_fault_of_the_template() -> None:
    with pytest.raises(KeyError):
        render.address("none.css")
