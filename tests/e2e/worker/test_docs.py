"""Every example of docs/worker.md runs, and the page names every setting."""

import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole import Client, Worker
from beanpole.worker import Counters, Outcome
from beanpole.worker.events import EVENTS
from tests.e2e.process import environment, wait_until
from tests.e2e.worker.program import Program
from tests.servers import HOST, START_TIMEOUT_S, Server

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "worker.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = [each for each in EXAMPLES if "@worker.handler" not in each or "asyncio.run" in each]
MODULES = [each for each in EXAMPLES if each not in PROGRAMS]
BODY = '{"to": "you@example.org"}'


def start(folder: Path, port: int, text: str, more: dict[str, str] | None = None) -> Program:
    """Runs a worker of the page by the command of the page."""
    (command,) = re.findall(r"^```sh\n(beanpole .*?)\n```$", PAGE, re.MULTILINE)
    (folder / "tasks.py").write_text(text)
    with (folder / "messages").open("wb") as output:
        arguments = [sys.executable, "-m", *command.split(), "--url", f"{HOST}:{port}"]
        popen = subprocess.Popen(arguments, cwd=folder, stdout=output, stderr=output, env=environment(more))
        return Program(popen, folder)


def run(text: str, port: int) -> None:
    """Runs a program of the page."""
    code = text.replace("11300", str(port))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_examples_of_both_kinds() -> None:
    assert (len(MODULES), len(PROGRAMS)) == (5, 6)


def test_the_first_example(beanpole: Server, tmp_path: Path) -> None:
    """The worker says what the page says, apart from times and the port."""
    worker = start(tmp_path, beanpole.port, MODULES[0], {"BEANPOLE_LOG_FORMAT": "console"})
    try:
        run(PROGRAMS[0], beanpole.port)
        wait_until(lambda: "sending to you@example.org\n" in worker.messages, "the job is done")
        with Client((HOST, beanpole.port)) as client:
            wait_until(lambda: client.stats().current_waiting == 10, "all wait for the next")
        assert worker.stop() == 0
        (said,) = re.findall(r"^The worker says, .*\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        assert re.sub(r"^\S+Z ", "", worker.messages, flags=re.MULTILINE).replace(str(beanpole.port), "11300") == said
    finally:
        worker.popen.kill()


def test_the_program_with_a_worker(beanpole: Server) -> None:
    run(PROGRAMS[5], beanpole.port)


def test_the_program_with_traces(beanpole: Server, tmp_path: Path) -> None:
    run(PROGRAMS[4], beanpole.port)
    worker = start(tmp_path, beanpole.port, PROGRAMS[4])
    with Client((HOST, beanpole.port)) as client:
        wait_until(lambda: client.stats().cmd_delete == 1, "the job is done")
    assert worker.stop() == 0
    assert '"name": "process emails"' in worker.messages


def test_the_program_whose_function_has_batches(beanpole: Server, tmp_path: Path) -> None:
    worker = start(tmp_path, beanpole.port, PROGRAMS[1])
    try:
        run(PROGRAMS[1], beanpole.port)
        wait_until(lambda: "one request for ['you@example.org']\n" in worker.messages, "the job is done")
        assert worker.stop() == 0
    finally:
        worker.popen.kill()


def test_the_program_that_puts_the_jobs_of_a_function(beanpole: Server) -> None:
    run(PROGRAMS[2], beanpole.port)
    with Client((HOST, beanpole.port), watch="mails") as client:
        assert client.reserve(0).body == '{"user_id":3}'
        job = client.find_job("mails", "reminder-3")
        assert job is not None
        assert job.body == '{"user_id":3,"template":"reminder"}'


def test_the_program_whose_function_has_schedules(beanpole: Server, tmp_path: Path) -> None:
    worker = start(tmp_path, beanpole.port, PROGRAMS[3])
    try:
        with Client((HOST, beanpole.port)) as client:
            wait_until(lambda: len(client.schedules()) == 2, "the schedules are set")
            client.fire_schedule("reports-of-the-week", at=1)
        text = "reports-of-the-week: the report of the week for 1970-01-01 00:00:01+00:00\n"
        wait_until(lambda: text in worker.messages, "the job is done")
        assert worker.stop() == 0
    finally:
        worker.popen.kill()


@pytest.mark.parametrize("text", MODULES[1:])
def test_module(beanpole: Server, tmp_path: Path, text: str) -> None:
    tubes = re.findall(r'"(\w+)"', " ".join(re.findall(r"@worker\.handler\((.*)\)", text)))
    assert tubes
    with Client((HOST, beanpole.port)) as client:
        for tube in tubes:
            client.put(BODY, tube=tube)
        worker = start(tmp_path, beanpole.port, text)
        try:
            wait_until(lambda: client.stats().cmd_delete == len(tubes), "all jobs are done")
            assert worker.stop() == 0
            assert not worker.events("a hook failed")
        finally:
            worker.popen.kill()


def test_every_setting_is_named() -> None:
    names = [
        *(each for each in inspect.signature(Worker).parameters),
        *(each for each in inspect.signature(Worker.handler).parameters if each not in {"self", "tubes"}),
        *(each for each in dir(Worker) if not each.startswith("_")),
        *(each.name for each in dataclasses.fields(Counters)),
    ]
    lacking = [name for name in names if not re.search(rf"`[^`]*\b{name}\b[^`]*`|@worker\.{name}\b", PAGE)]
    assert not lacking, f"docs/worker.md does not mention {lacking}"
    assert all(outcome.value in PAGE for outcome in Outcome)


def test_the_table_of_events_is_the_list() -> None:
    start = PAGE.index("| Event | Level | Fields |")
    rows = PAGE[start : PAGE.index("\n\n", start)].splitlines()[2:]
    listed = [(each.name, each.level, ", ".join(f"`{field}`" for field in each.fields) or "none") for each in EVENTS]
    assert rows == [
        f"| `{name}` | {level} | {fields} | {each.meaning} |"
        for (name, level, fields), each in zip(listed, EVENTS, strict=True)
    ]
