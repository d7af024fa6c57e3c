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


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: str, tmp_path: Path) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(example)
    is_test = "\ndef test_" in example
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)] if is_test else [str(file)]
    done = subprocess.run([sys.executable, "-W", "error", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_is_named() -> None:
    names = {name for name in dir(FakeServer) if not name.startswith("_")} - {"event"}
    lacking = [name for name in sorted(names) if not re.search(rf"`(\w+[.])?{name}\b", PAGE)]
    assert not lacking, f"docs/testing.md does not mention {lacking}"
