"""Every example of docs/cli.md does what the page says, and its reference is what the commands are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole.cli.common import EXIT_CODES
from tests.cli_reference import MARKER, PAGES, reference
from tests.e2e.process import environment
from tests.servers import HOST, beanpole_server

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parents[3]
PAGE, _, _ = (ROOT / "docs/cli.md").read_text().partition(MARKER.format("docs/cli.md"))
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"\t65536\t[\d.]+\t(\d\d?|35\d\d)\t")
"""Seconds of a table: how old a job is, and how many are left of its delay."""


def test_examples(tmp_path: Path) -> None:
    assert len(EXAMPLES) == PAGE.count("```sh\n")
    with beanpole_server() as server:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        given = environment({"BEANPOLE_URL": f"beanstalk://{HOST}:{server.port}", "PATH": path})
        for example, wanted in EXAMPLES:
            done = subprocess.run(
                ["bash", "-e", "-c", example], cwd=tmp_path, env=given, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert VARYING.sub("\t65536\t-\t-\t", done.stdout) == VARYING.sub("\t65536\t-\t-\t", wanted)


@pytest.mark.parametrize("page", PAGES)
def test_reference_is_up_to_date(page: str) -> None:
    written = (ROOT / page).read_text().partition(MARKER.format(page))[2]
    assert written.strip() == reference(page).strip(), f"run: python -m tests.cli_reference {page}"


def test_exit_codes_are_those_of_the_help() -> None:
    documented = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert documented == re.findall(r"^  (\d+) +(.*)$", EXIT_CODES, re.MULTILINE)
