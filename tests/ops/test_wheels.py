"""How wheels are made: what tries one works, and the workflows that make them elsewhere run what is there."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.ops.files import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("name", "said"),
    [("smoke", "It works with Python "), ("elsewhere", "Client, worker and FakeServer work with Python ")],
)
def test_what_tries_a_wheel_finds_that_this_beanpole_works(name: str, said: str) -> None:
    command = [sys.executable, str(ROOT / f"packaging/wheels/{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(said)


@pytest.mark.repository
def test_what_a_mac_has_loads_nothing_that_needs_linux() -> None:
    (pattern,) = re.findall(r'^LINUX = re\.compile\(r"(.*)"\)$', (ROOT / "setup.py").read_text(), re.MULTILINE)
    loads = "import beanpole.pytest_plugin, beanpole.testing, beanpole.worker.worker, beanpole.client.sync"
    loads += (
        ", beanpole.cli.main, beanpole.cli.put, beanpole.cli.reserve, beanpole.cli.worker, beanpole.console.app, sys; "
    )
    loads += "beanpole.testing.FakeServer(); beanpole.AsyncClient; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)
    needs = {name for name in done.stdout.split() if re.fullmatch(pattern, name)}
    assert {name for name in needs if (ROOT / "src" / name.replace(".", "/")).with_suffix(".pxd").exists()} == set()


@pytest.mark.repository
def test_where_there_is_no_server_serve_says_so() -> None:
    code = "import sys; sys.platform = 'darwin'; sys.argv[1:] = ['serve']; from beanpole.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.partition(":")[0]) == (1, "beanpole")
    assert "Linux" in done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there(path: Path) -> None:
    text = path.read_text()
    for name in re.findall(r"(?:\.ci|packaging|\.github/workflows)/[\w./-]+", re.sub(r"#.*", "", text)):
        assert (ROOT / name).exists(), name
    for verb in re.findall(r"run: make ([\w-]+)", text):
        assert re.search(rf"^{verb}:", (ROOT / "Makefile").read_text(), re.MULTILINE), verb


def test_actions_of_workflows_are_pinned_each_to_one_commit() -> None:
    used = {line for path in WORKFLOWS for line in re.findall(r"uses: ([^$].*)", path.read_text())}
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in used), used
    assert len({line.partition("@")[0] for line in used}) == len(used)


def test_jobs_of_workflows_may_do_what_they_say_and_nothing_else() -> None:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] in ({}, {"contents": "read"}), path.name
        for name, job in workflow["jobs"].items():
            assert "uses" in job or job["timeout-minutes"], name
            assert "permissions" in job or workflow["permissions"], name


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


def test_wheels_are_built_for_the_pythons_that_are_supported() -> None:
    for path in (ROOT / "pyproject.toml", ROOT / "ids/pyproject.toml"):
        project = tomllib.loads(path.read_text())
        built = project["tool"]["cibuildwheel"]["build"]
        assert project["project"]["requires-python"] == f">=3.{built[0].removeprefix('cp3').removesuffix('-*')}"
        tried = re.findall(r"\{project\}/([\w./]+)", str(project["tool"]["cibuildwheel"]))
        assert tried
        assert [name for name in tried if not (ROOT / name).exists()] == []


@pytest.mark.repository
def test_the_estimate_of_a_build_follows_this_machine_from_a_fifth_of_the_work_on() -> None:
    whole_s = runpy.run_path(str(ROOT / "progress.py"))["whole_s"]
    assert whole_s(0, 3, 40) == 40
    assert [whole_s(done, 100 * done, 40) for done in (0.1, 0.2, 0.5, 1)] == [70, 100, 100, 100]
