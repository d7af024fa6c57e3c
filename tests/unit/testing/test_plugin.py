"""The pytest plugin: its fixture is there without being asked for, and costs nothing until then."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import beanpole

if TYPE_CHECKING:
    from beanpole.testing import FakeServer


def test_the_fixture_is_a_running_server(beanpole_server: "FakeServer") -> None:
    with beanpole.Client(beanpole_server.url) as client:
        client.put("x", delay=0.5)
        beanpole_server.advance(0.5)
        assert client.reserve(timeout=0).body == "x"


def test_the_next_one_is_empty(beanpole_server: "FakeServer") -> None:
    assert beanpole_server.jobs() == []


def test_pytest_finds_it_by_itself_and_imports_little(tmp_path: Path) -> None:
    Path(tmp_path, "test_it.py").write_text(
        "import sys\n"
        "def test_nothing_else_is_imported():\n"
        "    ours = {name for name in sys.modules if name.partition('.')[0] == 'beanpole'}\n"
        "    assert ours == {'beanpole', 'beanpole.pytest_plugin'}\n"
        "def test_server(beanpole_server):\n"
        "    assert beanpole_server.put('x') == 1\n"
    )
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
