"""How wheels are made: what tries one works, and the workflows that make them elsewhere run what is there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.ops.files import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_what_tries_a_wheel_finds_that_this_beanpole_works() -> None:
    smoke = ROOT / "packaging/wheels/smoke.py"
    done = subprocess.run([sys.executable, smoke], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("It works with Python ")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert all(job["steps"] for job in workflow["jobs"].values())
    named = re.findall(r"(?:\{project\}/|/project/)([\w./]+)|( \.ci/run)", path.read_text())
    assert named
    for name in ("".join(each).strip() for each in named):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    ("paths", "parts"),
    [
        ("ids/src/beanpole_ids/rules/rule.py", ["ids"]),
        ("docs/console.md src/beanpole/console/run.py", ["console", "core"]),
        ("src/beanpole/engine/engine.pxd", ["cluster", "console", "core"]),
        ("Makefile ids/README.md", ["cluster", "console", "core", "ids"]),
        ("", ["cluster", "console", "core", "ids"]),
    ],
)
def test_a_change_needs_the_parts_that_it_touches(paths: str, parts: list[str]) -> None:
    names = "".join(f"{path}\n" for path in paths.split())
    done = subprocess.run([ROOT / ".ci/parts"], input=names, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == parts


def test_python_versions_of_the_workflows_are_supported() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS)
    versions = {int(minor) for minor in re.findall(r'cp3(\d+)-|"3\.(\d+)"', text) for minor in minor if minor}
    assert min(versions) == 11
