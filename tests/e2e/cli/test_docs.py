"""Every example of docs/cli.md and docs/recipes.md does what its page says; the reference is what the commands are."""

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
PAGE = (ROOT / "docs/recipes.md").read_text()
GUIDE, _, _ = (ROOT / "docs/cli.md").read_text().partition(MARKER.format("docs/cli.md"))
SECTIONS = {
    title: text for title, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE) if "```" in text
}
EXAMPLE = re.compile(r"^```(sh|python)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"(?<=\t65536\t)[0-9.]+\t[0-9]+(?=\t)|(?<=\t1\t)[0-9.]+(?=\t0\t60\t)|\b[0-9.]+(?= s more)")
"""How old a job is, and what is left of a minute."""


@pytest.mark.parametrize("title", ["", *SECTIONS])
def test_examples(title: str, tmp_path: Path) -> None:
    """The guide has a server of its own, and so has each section of the recipes."""
    text = SECTIONS.get(title, GUIDE)
    with beanpole_server() as server:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        given = environment({"BEANPOLE_URL": f"beanstalk://{HOST}:{server.port}", "PATH": path})
        for kind, example, wanted in EXAMPLE.findall(text):
            command = ["bash", "-e", "-c", example]
            if kind == "python":
                command = [sys.executable, "-W", "error", "-c", example.replace("11300", str(server.port))]
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{example}\n{done.stdout}"
            if wanted:
                assert VARYING.sub("-", done.stdout) == VARYING.sub("-", wanted), example


@pytest.mark.parametrize("page", PAGES)
def test_reference_is_up_to_date(page: str) -> None:
    written = (ROOT / page).read_text().partition(MARKER.format(page))[2]
    assert written.strip() == reference(page).strip(), f"run: python -m tests.cli_reference {page}"


def test_exit_codes_are_those_of_the_help() -> None:
    documented = re.findall(r"^\| (\d+) \| (.*) \|$", GUIDE, re.MULTILINE)
    assert documented == re.findall(r"^  (\d+) +(.*)$", EXIT_CODES, re.MULTILINE)


def test_all_examples_are_found() -> None:
    assert len(EXAMPLE.findall(GUIDE)) == GUIDE.count("```sh\n")
    found = sum(len(EXAMPLE.findall(text)) for text in SECTIONS.values())
    assert found == len(re.findall("^```(?:sh|python)$", PAGE, re.MULTILINE)) >= 12
