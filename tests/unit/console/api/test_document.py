"""The document is made of the table of operations, and so is the page about the API."""

import json
import re
from pathlib import Path

import pytest

from beanpole.console.api.document import document
from beanpole.console.api.operations import Places
from beanpole.console.api.table import OPERATIONS
from tests.api_reference import MARKER, reference

DOCUMENT = document(OPERATIONS, ["one"])


def test_each_operation_is_described_once() -> None:
    found = {
        (method.upper(), path): described
        for path, methods in DOCUMENT["paths"].items()
        for method, described in methods.items()
    }
    assert set(found) == {(each.method, f"/api/v1{each.path}") for each in OPERATIONS}
    assert len({described["operationId"] for described in found.values()}) == len(OPERATIONS)
    for described in found.values():
        assert described["summary"].endswith("."), described


def test_what_is_referred_to_is_there() -> None:
    for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(DOCUMENT)):
        assert name in DOCUMENT["components"][kind]


def test_each_place_of_a_path_is_a_parameter() -> None:
    for each in OPERATIONS:
        assert set(each.places) <= set(Places.__struct_fields__)
        parameters = DOCUMENT["paths"][f"/api/v1{each.path}"][each.method.lower()]["parameters"]
        assert [one["name"] for one in parameters if one["in"] == "path"] == each.places


@pytest.mark.repository
def test_the_page_about_the_api_says_what_the_table_says() -> None:
    page = (Path(__file__).parents[4] / "docs" / "api.md").read_text()
    assert page.partition(MARKER)[2] == "\n" + reference(), "python -m tests.api_reference docs/api.md"
