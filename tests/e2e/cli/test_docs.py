"""Every example of docs/cli.md does what the page says, and its reference is what the commands are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole.cli.common import EXIT_CODES
from tests.cli_reference import MARKER, reference
from tests.e2e.process import environment
from tests.servers import HOST, beanpole_server

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text()
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE.partition(MARKER)[0], re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"\t65536\t\d+\t(\d\d?|35\d\d)\t")
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


def test_reference_is_up_to_date() -> None:
    written = PAGE.partition(MARKER)[2]
    assert written.strip() == reference().strip(), "run: python -m tests.cli_reference docs/cli.md"


def test_exit_codes_are_those_of_the_help() -> None:
    documented = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.partition(MARKER)[0], re.MULTILINE)
    assert documented == re.findall(r"^  (\d+) +(.*)$", EXIT_CODES, re.MULTILINE)
