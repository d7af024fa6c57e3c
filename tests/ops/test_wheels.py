"""How wheels are made: what tries one works, and the workflows that make them elsewhere run what is there."""

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


def test_python_versions_of_the_workflows_are_supported() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS)
    versions = {int(minor) for minor in re.findall(r'cp3(\d+)-|"3\.(\d+)"', text) for minor in minor if minor}
    assert min(versions) == 11
