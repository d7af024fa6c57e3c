"""Every example of docs/client.md runs, and the page names every method and error."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import beanpole
from beanpole import errors
from tests.servers import Server, beanpole_server

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NEVER_DIES = next(each for each in EXAMPLES if "patience=None" in each)
"""A program that has no end: see :mod:`tests.e2e.client.test_restart`."""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with beanpole_server() as server:
        yield server


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each != NEVER_DIES])
def test_example(example: str, running: Server) -> None:
    code = example.replace("11300", str(running.port))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_method_is_named() -> None:
    methods = [name for name in dir(beanpole.Client) if not name.startswith("_")]
    told = [name for name in methods if f"{name}(" in PAGE or f"`client.{name}`" in PAGE]
    lacking = set(methods) - set(told) - {"close", "tube_used", "untouched"}
    assert not lacking, f"docs/client.md does not mention {lacking}"


def test_both_clients_have_the_same_methods() -> None:
    assert {name for name in dir(beanpole.Client) if name[0] != "_"} == {
        name for name in dir(beanpole.AsyncClient) if name[0] != "_"
    }


def test_every_error_of_the_client_is_named() -> None:
    bases = (errors.ReplyError, errors.ConnectionLostError)
    names = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, bases)]
    lacking = [name for name in names if f"`{name}`" not in PAGE]
    assert not lacking, f"docs/client.md does not mention {lacking}"
