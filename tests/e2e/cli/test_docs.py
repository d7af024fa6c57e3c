"""Every example of docs/cli.md and docs/recipes.md does what its page says; the reference is what the commands are."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole.cli.common import EXIT_CODES
from tests.cli_reference import MARKER, PAGES, reference
from tests.e2e.process import environment, written_to
from tests.servers import HOST, beanpole_server, peer

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/recipes.md").read_text()
GUIDE, _, _ = (ROOT / "docs/cli.md").read_text().partition(MARKER.format("docs/cli.md"))
SECTIONS = {
    title: text for title, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE) if "```" in text
}
EXAMPLE = re.compile(r"^```(sh|python)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
GAP = re.compile(r"(?<=\S)(?: +|\n {4}(?=[a-z]))")
"""Between columns, and where a line of a list goes on in the next one."""

STYLE = re.compile(r"\r\x1b\[\?25l.*\x1b\[\?25h\n|\x1b\[[0-9;]*m")
"""A progress bar, and colours."""

VARYING = re.compile(
    r"(?<= 65536 )[0-9.]+ [0-9]+(?= )|(?<= 1 )[0-9.]+(?= 0 60 )|\b[0-9.]+(?= s more)|(?<= age )[0-9]+(?= s,)|─+"
    r"|(?<=closed the tube )[0-9.]+|(?<=is tried in )[0-9.]+"
)
"""How old a job or a closed breaker is, what is left of a time, and a rule below columns, as wide as these."""


@pytest.mark.parametrize("title", ["", *SECTIONS])
def test_examples(title: str, tmp_path: Path) -> None:
    """The guide has a server of its own, and so has each section of the recipes."""
    text = SECTIONS.get(title, GUIDE)
    if "\nphp " in text:
        peer("php")
    with beanpole_server() as server:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        given = environment({"BEANPOLE_URL": f"beanstalk://{HOST}:{server.port}", "PATH": path, "COLUMNS": "120"})
        for kind, example, wanted in EXAMPLE.findall(text):
            command = ["bash", "-e", "-c", example]
            if kind == "python":
                command = [sys.executable, "-W", "error", "-c", example.replace("11300", str(server.port))]
            shown = on_terminal(command, tmp_path, given)
            if wanted:
                assert steady(shown) == steady(wanted), example


def on_terminal(command: list[str], folder: Path, given: dict[str, str]) -> str:
    """Return what a command that succeeds shows on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=folder, env=given, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = STYLE.sub("", written_to(ours).decode().replace("\r\n", "\n"))
    os.close(ours)
    assert process.returncode == 0, f"{command}\n{shown}"
    return shown


def steady(text: str) -> str:
    """Return a text without what differs each time, and with it how wide a column is."""
    return VARYING.sub("-", GAP.sub(" ", text))


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
