"""What is proven of a release, by parts: `make release-check` puts them together."""

import os
import runpy
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.ops.files import ROOT

pytestmark = pytest.mark.repository

check = runpy.run_path(str(ROOT / "packaging/release/check.py"))
installed = runpy.run_path(str(ROOT / "packaging/wheels/installed.py"))
sbom = runpy.run_path(str(ROOT / "packaging/release/sbom.py"))

CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2027-01-31\n\n### The queue\n\n- New.\n\n## 0.1.0\n\n- First.\n"
STILL = "CHANGELOG.md still has something under Unreleased"
VERSIONS = {"pyproject.toml": "0.2.0", "ids/pyproject.toml": "0.2.0"}


def test_a_release_fits_its_tag() -> None:
    assert check["version_faults"]("v0.2.0", VERSIONS, CHANGELOG) == []
    assert check["section"](CHANGELOG, "0.2.0") == "### The queue\n\n- New."


@pytest.mark.parametrize(
    ("tag", "versions", "changelog", "fault"),
    [
        ("v0.2.0", VERSIONS | {"ids/pyproject.toml": "0.1.9"}, CHANGELOG, "ids/pyproject.toml says 0.1.9, not 0.2.0"),
        ("v0.3.0", dict.fromkeys(VERSIONS, "0.3.0"), CHANGELOG, "CHANGELOG.md has nothing under 0.3.0"),
        ("0.2.0", VERSIONS, CHANGELOG, "0.2.0 is no tag like v1.2.3"),
        ("v0.2.0", VERSIONS, CHANGELOG.replace("## 0.2.0", "- More.\n\n## 0.2.0"), STILL),
        ("", VERSIONS, CHANGELOG, "CHANGELOG.md has nothing under Unreleased"),
    ],
)
def test_a_release_that_does_not_fit_is_found(tag: str, versions: dict[str, str], changelog: str, fault: str) -> None:
    assert check["version_faults"](tag, versions, changelog) == [fault]


def test_this_checkout_could_be_rehearsed() -> None:
    versions = check["versions"]()
    assert check["version_faults"]("", versions, (ROOT / "CHANGELOG.md").read_text()) == []
    assert [where for where in versions if "Chart.yaml" in where] == [
        "version of charts/beanpole/Chart.yaml",
        "appVersion of charts/beanpole/Chart.yaml",
    ]


def test_another_build_that_differs_is_named() -> None:
    assert check["different"]({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "0", "d": "4"}) == ["b", "d"]


def test_what_a_wheel_lists_and_what_is_installed_are_compared() -> None:
    parts = [
        {"name": "click", "version": "8.5.1", "scope": "required"},
        {"name": "rich", "version": "15.0.0", "scope": "required"},
        {"name": "psycopg", "version": "3.3.9", "scope": "optional"},
        {"name": "cython", "version": "3.3.1", "scope": "excluded"},
    ]
    right = {"click": "8.5.1", "rich": "15.0.0"}
    assert installed["faults"](parts, right) == []
    assert installed["faults"](parts, right | {"psycopg": "3.3.9"}) == []
    assert installed["faults"](parts, right | {"cython": "3.3.1"}) == ["cython 3.3.1 is installed, not listed"]
    assert installed["faults"](parts, {"click": "8.5.0"}) == [
        "click 8.5.0 is installed, not 8.5.1",
        "rich is required, not installed",
    ]


@pytest.mark.parametrize("name", ["beanpole", "beanpole-ids"])
def test_the_list_of_what_is_installed_is_up_to_date(name: str) -> None:
    assert (sbom["FOLDERS"][name] / "sbom.cdx.json").read_text() == sbom["text"](name), "run `make sbom`"


def test_an_archive_of_the_sources_has_what_compiles_them_and_the_same_bytes_twice(tmp_path: Path) -> None:
    packed: list[Path] = []
    for place in (tmp_path / "one", tmp_path / "a second"):
        tracked = subprocess.run(["git", "ls-files", "-z", "ids", "*.py"], cwd=ROOT, capture_output=True, check=True)
        for path in map(Path, tracked.stdout.decode().split("\0")):
            if path.parts[:1] == ("ids",) or len(path.parts) == 1:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, place / path)
        variables = os.environ | {"BEANPOLE_COMPILE": "no", "SOURCE_DATE_EPOCH": "1800000000"}
        command = [sys.executable, "setup.py", "--quiet", "sdist"]
        subprocess.run(command, cwd=place / "ids", env=variables, check=True)
        packed += (place / "ids/dist").iterdir()
    with tarfile.open(packed[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "compiling.py", "progress.py", "stubs.py", "sbom.cdx.json", "LICENSE"} <= names
    assert packed[0].read_bytes() == packed[1].read_bytes()
