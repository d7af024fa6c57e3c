"""A worker's events: one list, written to loggers of the standard library and to those with structlog's methods."""

import ast
import inspect
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from beanpole.cli.worker_log import Lines
from beanpole.server.logs import Logger, json_line, plain_line
from beanpole.worker import events
from beanpole.worker.log import Log

FOLDER = Path(inspect.getfile(events)).parent
TIME = "1970-01-01T00:00:00.000000Z"
ABOUT: dict[str, object] = {"id": 7, "tube": "emails", "attempt": 2, "max_attempts": 5}


def test_each_event_has_a_name_of_its_own_and_fields_that_a_record_can_have() -> None:
    assert len({each.name for each in events.EVENTS}) == len(events.EVENTS) >= 15
    taken = vars(logging.makeLogRecord({})).keys() | {"event", "sentence", "exc_info", "message", "asctime"}
    assert not [each.name for each in events.EVENTS if taken & set(each.fields)]
    assert {each.level for each in events.EVENTS} == {"info", "warning", "error"}


def test_the_code_logs_the_events_of_the_list_only_and_each_of_them() -> None:
    named: set[str] = set()
    for path in [*FOLDER.glob("*.py"), FOLDER.parent / "cli" / "worker.py", *(FOLDER.parent / "process").glob("*.py")]:
        if path.name in {"log.py", "events.py"}:
            continue
        text = path.read_text()
        named |= set(re.findall(r"events\.([A-Z_]+)", text))
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in {"info", "warning", "error", "exception", "critical"}:
                pytest.fail(f"{path.name}:{node.lineno}: write an event of worker/events.py")
    assert named == {name for name, value in vars(events).items() if isinstance(value, events.Event)}


def test_a_record_has_the_fields_as_attributes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "beanpole.worker"):
        mistake = (ValueError, ValueError("bad luck"), None)
        Log().write(events.JOB_DEAD, **ABOUT, error="ValueError: 100 % bad", exc_info=mistake)
        Log().write(events.STOPPED, done=1, failed=0)
    dead, stopped = caplog.records
    assert dead.name == "beanpole.worker"
    assert (dead.levelno, dead.exc_info) == (logging.ERROR, mistake)
    assert dead.getMessage() == "job dead id=7 tube=emails attempt=2 max_attempts=5 error=ValueError: 100 % bad"
    assert dead.msg == "job dead id=%s tube=%s attempt=%s max_attempts=%s error=%s", "it is the same of each job"
    assert {name: getattr(dead, name) for name in ("event", *ABOUT)} == {"event": "job dead"} | ABOUT
    assert (stopped.levelno, stopped.getMessage()) == (logging.INFO, "worker stopped done=1 failed=0")


def test_a_sentence_is_the_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "beanpole.worker"):
        Log().write(events.STOPPING, sentence="stopping: no job running", running=0)
    [record] = caplog.records
    assert record.getMessage() == "stopping: no job running"
    assert (getattr(record, "event", ""), getattr(record, "running", None)) == ("stopping", 0)


def test_a_structlog_logger_gets_the_name_and_the_fields() -> None:
    capture = structlog.testing.LogCapture()
    given = Log(structlog.wrap_logger(None, processors=[capture]))
    given.write(events.STOPPING, sentence="stopping: no job running", running=0)
    assert capture.entries == [{"event": "stopping", "running": 0, "log_level": "info"}]


def test_a_logger_of_the_standard_library_is_one(caplog: pytest.LogCaptureFixture) -> None:
    adapter = logging.LoggerAdapter(logging.getLogger("mine"), {})
    with caplog.at_level(logging.INFO, "mine"):
        Log(logging.getLogger("mine")).write(events.STOPPED, done=1, failed=0)
        Log(adapter).write(events.STOPPED, done=2, failed=0)
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("mine", "worker stopped done=1 failed=0"),
        ("mine", "worker stopped done=2 failed=0"),
    ]


SHOWN = """
import logging
from beanpole.worker import events
from beanpole.worker.log import Log, shown

{begin}
with shown():
    Log().write(events.STOPPED, done=1, failed=0)
Log().write(events.STOPPED, done=2, failed=0)
"""


@pytest.mark.parametrize(
    ("begin", "lines"),
    [
        ("", [" INFO worker stopped done=1 failed=0"]),
        ("logging.basicConfig(level=logging.WARNING)", []),
        ("logging.basicConfig(level=logging.INFO, format='%(message)s')", ["worker stopped done=1 failed=0"] * 2),
    ],
    ids=["nothing", "warnings", "all"],
)
def test_run_shows_the_log_if_the_program_says_nothing_about_logs(begin: str, lines: list[str]) -> None:
    """In a process of its own: pytest has handlers for all loggers."""
    code = SHOWN.format(begin=begin)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    said = done.stderr.splitlines()
    assert done.stdout == ""
    assert len(said) == len(lines)
    assert all(line.replace("done=2", "done=1").endswith(end) for line, end in zip(said, lines, strict=True))


def test_the_command_writes_lines_as_the_server_does(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("beanpole.test")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for line in (plain_line, json_line):
        handler = Lines(Logger(line, lambda: 0))
        logger.addHandler(handler)
        Log(logger).write(events.JOB_LOST, id=7, error="gone")
        Log(logger).write(events.STOPPING, sentence="stopping: no job running", running=0)
        logger.warning("lost %s", "it")
        logger.removeHandler(handler)
    assert capsys.readouterr().err.splitlines() == [
        f"{TIME} [warning  ] job lost                       id=7 error=gone",
        f"{TIME} [info     ] stopping: no job running",
        f"{TIME} [warning  ] lost it",
        '{"id": 7, "error": "gone", "event": "job lost", "level": "warning", "timestamp": "' + TIME + '"}',
        '{"running": 0, "event": "stopping", "level": "info", "timestamp": "' + TIME + '"}',
        '{"event": "lost it", "level": "warning", "timestamp": "' + TIME + '"}',
    ]


class Failing:
    """A logger of structlog's kind of which a processor fails."""

    def error(self, event: str, **_about: object) -> None:
        raise KeyError(event)


def test_a_filter_or_a_processor_that_fails_does_not_keep_the_worker_from_its_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("a program that fails")
    logger.addFilter(lambda record: bool(record.no_such_field))  # type: ignore[attr-defined]
    for each in (logger, Failing()):
        Log(each).write(events.JOB_DEAD, **ABOUT)
    said = capsys.readouterr()
    assert "no_such_field" in said.err
    assert "KeyError: 'job dead'" in said.err
    assert not said.out
