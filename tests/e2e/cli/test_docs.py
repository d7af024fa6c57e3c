"""Every example of docs/cli.md and docs/recipes.md does what its page says; the reference is what the commands are."""

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole import Client
from beanpole.cli.common import EXIT_CODES
from tests.cli_reference import MARKER, PAGES, reference
from tests.e2e.process import environment
from tests.ops.test_packaging import systemd_analyze
from tests.servers import HOST, REPLY_TIMEOUT_S, beanpole_server

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


NIGHTLY = next((text for title, text in SECTIONS.items() if "cron" in title), "")
UNIT = re.compile(r"^```ini\n# \S+/(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def units() -> dict[str, str]:
    """The units of the nightly job, by their names; the program is that of this environment."""
    found = dict(UNIT.findall(NIGHTLY))
    assert set(found) == {"nightly-report.service", "nightly-report.timer"}
    return {
        name: text.replace("/usr/bin/beanpole", f"{Path(sys.executable).parent}/beanpole")
        for name, text in found.items()
    }


def test_nightly_job_is_there_once_whoever_puts_it() -> None:
    """As systemd starts its service (systemd.service(5)), and cron its line (crontab(5)), a second time as well."""
    section = configparser.ConfigParser(interpolation=None)
    section.optionxform = str  # type: ignore[assignment,method-assign]
    section.read_string(units()["nightly-report.service"])
    service = section["Service"]
    (crontab,) = re.findall(r"^```cron\n(.*?)^```$", NIGHTLY, re.MULTILINE | re.DOTALL)
    variable, line = crontab.splitlines()
    *when, user, command = line.split(" ", 6)
    assert (when, user) == (["30", "2", "*", "*", "*"], "nobody")
    assert "%" not in command, "cron takes it for a line end"
    command = command.replace("/usr/bin/beanpole", service["ExecStart"].partition(" ")[0])
    with beanpole_server() as server:
        for words, setting in (
            (shlex.split(service["ExecStart"]), service["Environment"]),
            (["sh", "-c", command], variable),
        ) * 2:
            name, _, value = setting.partition("=")
            given = environment({name: value.replace("11300", str(server.port))})
            subprocess.run(words, env=given, check=True, timeout=REPLY_TIMEOUT_S)
        with Client((HOST, server.port)) as client:
            (job,) = client.list_jobs("reports", "delayed").jobs
            assert (job.key, client.peek(job.id).body) == ("nightly-report", "report of the night")


def test_systemd_understands_the_nightly_timer(tmp_path: Path) -> None:
    for name, text in units().items():
        (tmp_path / name).write_text(text)
    said = systemd_analyze("verify", "--man=no", *(str(tmp_path / name) for name in units()))
    assert "nightly-report" not in said


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
