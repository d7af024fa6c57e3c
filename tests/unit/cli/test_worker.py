"""What is no worker, where its processes serve their metrics, and the flags that ``--reload`` passes on."""

import sys
from pathlib import Path

import pytest

from beanpole.cli import main
from beanpole.cli.worker import address_of, flags_of
from beanpole.testing import FakeServer


@pytest.mark.parametrize(
    ("given", "first", "third"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1:11383"),
        ("localhost:9000", "localhost:9000", "localhost:9002"),
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:9000", "[::1]:9000", "[::1]:9002"),
        ("[::1]:0", "[::1]:0", "[::1]:0"),
        ("unix:/run/metrics", "unix:/run/metrics", "unix:/run/metrics.3"),
    ],
)
def test_the_address_of_the_metrics_of_each_process(given: str, first: str, third: str) -> None:
    assert address_of(given, 1) == first
    assert address_of(given, 3) == third


def test_flags_are_passed_on() -> None:
    given = {"log_format": "json", "url": "unix:/a", "grace": 0.5, "concurrency": None, "verbose": True, "x": False}
    assert flags_of(given) == ["--log-format", "json", "--url", "unix:/a", "--grace", "0.5", "--verbose"]


@pytest.mark.parametrize(
    ("target", "code", "sentence"),
    [
        ("handlers", 5, "MODULE:WORKER is meant, as handlers:worker, not 'handlers'"),
        ("./app/handlers.py:made", 5, "MODULE:WORKER is meant, as app.handlers:made, not './app/handlers.py:made'"),
        ("nothing:worker", 5, "there is no module 'nothing'"),
        ("handlers:wroker", 5, "handlers has no 'wroker'; its workers are worker"),
        ("handlers:note", 5, "handlers:note is no beanpole.Worker, but of type function"),
        ("empty:worker", 5, "the worker has no handler"),
        ("broken:worker", 1, "broken can't be imported, see above: ModuleNotFoundError: No module named 'a_module_"),
    ],
)
def test_what_is_no_worker_is_one_clear_error(  # noqa: PLR0917 - a row of the table
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    target: str,
    code: int,
    sentence: str,
) -> None:
    for name, text in {
        "handlers": "from beanpole import Worker\nworker = Worker()\ndef note():\n    pass\n",
        "empty": "from beanpole import Worker\nworker = Worker()\n",
        "broken": "import a_module_that_is_not_there\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main.main(["worker", target]) == code
    error = capsys.readouterr().err
    assert sentence in error.splitlines()[-1]
    assert ("Traceback" in error) == (code == 1)


def test_a_server_that_does_not_take_its_schedules_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "from beanpole import Worker\nworker = Worker()\n"
    text += '@worker.schedule(cron="@daily")\n@worker.function("t")\ndef work():\n    pass\n'
    (tmp_path / "timed.py").write_text(text)
    monkeypatch.delitem(sys.modules, "timed", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with FakeServer(old=True) as server:
        monkeypatch.setenv("BEANPOLE_URL", server.url)
        assert main.main(["worker", "timed:worker", "--url", server.url]) == 5
    sentence = "timed:worker: the schedule t of timed.work: the server does not support set-schedule"
    assert sentence in capsys.readouterr().err.splitlines()[-1]
