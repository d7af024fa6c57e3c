"""Runs every golden script against the engine, against our server, and against the real beanstalkd.

A script that has been seen to pass on beanstalkd is right; that is why the reference is a target like the others.
Against real servers a few scripts run at a time, since most of their time is waiting.
"""

import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from beanpole.conformance.run import Problem, Run
from beanpole.conformance.script import SCRIPTS, Script, read_script
from tests.scripts.target import open_target
from tests.servers import REPLY_TIMEOUT_S, beanstalkd_version, peer

TARGETS = ["engine", "beanpole", "beanstalkd"]

REAL_SECONDS_MAX = 2.0
"""Scripts in which more time passes run against the engine only, where time costs nothing."""

AT_ONCE = 3
"""How many scripts run against real servers at the same time."""

BEANSTALKD_TRIES = 10
"""How often a script runs that beanstalkd fails in about one of four runs."""

LATE_TRIES = 4
LATE_S = 0.15
"""By how much a run may take longer than its script says, and still says something of what happens when.

On a machine that is so busy, time passes between the lines of a script as well: half a second before a job is due may
be behind that. Such a run is repeated if it fails.
"""

BEANSTALKD_PATIENCE_S = 3.0
"""How long such a run waits for a reply, which never comes when beanstalkd has lost the timer behind it."""


def run(script: Script, kind: str) -> Problem | None:
    """Runs a script against a fresh target."""
    is_retried = kind == "beanstalkd" and "beanstalkd retried" in script.settings
    for _ in range(BEANSTALKD_TRIES if is_retried else LATE_TRIES):
        with open_target(kind, script, BEANSTALKD_PATIENCE_S if is_retried else REPLY_TIMEOUT_S) as target:
            began_s = time.monotonic()
            outcome = Run(script, target, exact=kind == "engine").outcome()
            took_s = time.monotonic() - began_s
        is_late = kind != "engine" and script.seconds > 0 and took_s > script.seconds + LATE_S
        if outcome is None or not (is_retried or is_late):
            break
    return outcome


def applies(script: Script, kind: str) -> bool:
    """Whether a script is meant for a target."""
    if kind != "engine" and ("only engine" in script.settings or script.seconds > REAL_SECONDS_MAX):
        return False
    return f"not {kind}" not in script.settings


def cases() -> list[tuple[Script, str]]:
    """Every script with every target that it is meant for."""
    scripts = map(read_script, SCRIPTS)
    return [(script, kind) for script in scripts for kind in TARGETS if applies(script, kind)]


def is_too_old(script: Script) -> bool:
    """Whether the installed beanstalkd is one that the script is not about."""
    return "beanstalkd 1.13 only" in script.settings and beanstalkd_version() != "1.13"


@pytest.fixture(scope="session")
def started(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], "Future[Problem | None]"]]:
    """The selected runs against real servers, started together."""
    selected: list[Any] = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_script
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (script.path.name, kind): pool.submit(run, script, kind)
            for script, kind in selected
            if kind == "beanpole" or (kind == "beanstalkd" and shutil.which(kind) and not is_too_old(script))
        }


@pytest.mark.xdist_group("scripts")  # the fixture starts all of them
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case[0].path.stem}-{case[1]}")
def test_script(case: tuple[Script, str], request: pytest.FixtureRequest) -> None:
    """The conversation goes as written."""
    script, kind = case
    if kind == "beanstalkd" and peer(kind) and is_too_old(script):
        pytest.skip(script.settings["beanstalkd 1.13 only"])
    if kind == "engine":
        problem = run(script, kind)
    else:
        problem = request.getfixturevalue("started")[script.path.name, kind].result()
    assert problem is None, str(problem)


def test_scripts_begin_with_their_name() -> None:
    """A script says at its top what it is about, and the files cannot silently disappear."""
    assert len(SCRIPTS) >= 60
    for path in SCRIPTS:
        assert path.read_text().startswith(f"# {path.stem} "), f"{path.name} must begin with '# {path.stem} (item ...)'"


@pytest.mark.repository
def test_clauses_are_headings_of_the_protocol() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text()
    headings = set(re.findall("^#+ (.*)$", page, re.MULTILINE))
    wrong = [path.name for path in SCRIPTS if read_script(path).settings.get("clause") not in headings]
    assert not wrong, "say '# clause: ' and the heading of docs/protocol.md"
