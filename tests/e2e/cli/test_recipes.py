"""Every example of docs/recipes.md does what the page says; each section has a server of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import environment
from tests.servers import HOST, beanpole_server

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "recipes.md").read_text()
SECTIONS = {
    title: text for title, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE) if "```" in text
}
EXAMPLE = re.compile(r"^```(sh|python)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"(?<=\t65536\t)[0-9.]+(?=\t)|(?<=\t1\t)[0-9.]+(?=\t0\t60\t)|\b[0-9.]+(?= s more)")
"""How old a job is, and what is left of a minute."""


@pytest.mark.parametrize("title", SECTIONS)
def test_examples_of(title: str, tmp_path: Path) -> None:
    with beanpole_server() as server:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        given = environment({"BEANPOLE_URL": f"beanstalk://{HOST}:{server.port}", "PATH": path})
        for kind, example, wanted in EXAMPLE.findall(SECTIONS[title]):
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


def test_all_examples_are_found() -> None:
    found = sum(len(EXAMPLE.findall(text)) for text in SECTIONS.values())
    assert found == len(re.findall("^```(?:sh|python)$", PAGE, re.MULTILINE)) >= 12
