"""Every example of docs/testing.md runs, and the page names everything that the server offers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole.testing import FakeServer

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "testing.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_examples(tmp_path: Path) -> None:
    """Each is a program, or a module of tests, which may import one that has its name in the first line."""
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for number, example in enumerate(EXAMPLES):
        named = re.match(r"# (\w+\.py)\n", example)
        file = tmp_path / (named[1] if named else f"test_{number}.py")
        file.write_text(example)
        if "\ndef test_" in example:
            command.append(str(file))
        else:
            run(str(file))
    run(*command)


def run(*command: str) -> None:
    """Run Python, which must not complain."""
    done = subprocess.run([sys.executable, "-W", "error", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_is_named() -> None:
    names = {name for name in dir(FakeServer) if not name.startswith("_")} - {"event"}
    lacking = [name for name in sorted(names) if not re.search(rf"`(\w+[.])?{name}\b", PAGE)]
    assert not lacking, f"docs/testing.md does not mention {lacking}"
