"""Every example of docs/monitoring.md runs, and the page names every check."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import beanpole as library
from beanpole.observe.columns import COLUMNS
from beanpole.observe.doctor import CHECKS, name_of
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, beanpole_server

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "monitoring.md").read_text().partition("\n## Metrics\n")[0]
EXAMPLES = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


@pytest.fixture
def running() -> Iterator[Server]:
    with beanpole_server() as server:
        yield server


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: str, running: Server, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = environment({"PATH": path, "BEANPOLE_URL": f"beanstalk://{HOST}:{running.port}"})
    said = tmp_path / "said"
    with said.open("wb") as output, library.Client((HOST, running.port), use="emails") as client:
        command = ["bash", "-c", "exec " + example.replace("11300", str(running.port))]
        popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
        try:
            if " tail " in example:
                wait_until(lambda: client.stats()["cmd-delete"] == 1, "tail has begun")
                client.put_many([f"job {number}" for number in range(10)], delay=60)
                wait_until(lambda: b"job 9" in said.read_bytes(), "all jobs are shown")
                if "--count" not in example:
                    popen.send_signal(signal.SIGINT)
            assert popen.wait(REPLY_TIMEOUT_S) == 0, said.read_text()
        finally:
            popen.kill()
            popen.wait()
    assert said.read_bytes()


def test_there_are_examples_of_each_verb() -> None:
    assert {example.split()[1] for example in EXAMPLES} == {"top", "tail", "doctor"}


def test_every_check_is_in_the_table() -> None:
    table = re.findall(r"^\| `([a-z-]+)` \| (?:error|warning|note)", PAGE, re.MULTILINE)
    assert sorted(table) == sorted(name_of(check) for check in CHECKS)


def test_age_is_explained() -> None:
    assert "AGE" in {column.title for column in COLUMNS}
    assert "`AGE`" in PAGE
