"""Runs every golden script against the engine, against our server, and against the real beanstalkd.

A script that has been seen to pass on beanstalkd is right; that is why the reference is a target like the others.
Against real servers a few scripts run at a time, since most of their time is waiting.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.script import Script, Step, check_statistics, read_script
from tests.scripts.target import Target, open_target
from tests.servers import REPLY_TIMEOUT_S, beanstalkd_version, peer

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
TARGETS = ["engine", "beanpole", "beanstalkd"]

REAL_SECONDS_MAX = 2.0
"""Scripts in which more time passes run against the engine only, where time costs nothing."""

AT_ONCE = 3
"""How many scripts run against real servers at the same time."""

BEANSTALKD_TRIES = 10
"""How often a script runs that beanstalkd fails in about one of four runs."""

BEANSTALKD_PATIENCE_S = 3.0
"""How long such a run waits for a reply, which never comes when beanstalkd has lost the timer behind it."""

Outcome = str | None
"""What went wrong, None for nothing."""


class Run:
    """One run of a script against a target, with what each connection has been sent and has not been asked for yet."""

    def __init__(self, script: Script, target: Target) -> None:
        self.script = script
        self.target = target
        self.received: dict[str, bytes] = {}

    def outcome(self) -> Outcome:
        """Runs all steps; the first that fails ends the run."""
        for step in self.script.steps:
            if problem := self.step(step):
                return f"{self.script.path.name}:{step.line}: {problem}"
        for name in self.received:
            if left := self.unexpected(name):
                return f"{self.script.path.name}: at the end {name} has got {left!r}"
        return None

    def step(self, step: Step) -> Outcome:
        """Does one line of the script."""
        name = step.name
        if name and name not in self.received:
            self.received[name] = b""
            self.target.connect(name)
        if step.kind == "send":
            self.target.send(name, step.data)
        elif step.kind == "expect":
            return self.expect(name, step)
        elif step.kind == "silence":
            return f"{name} has got {left!r}" if (left := self.unexpected(name)) else None
        elif step.kind == "is closed":
            left = self.unexpected(name)
            return f"{name} has got {left!r}" if left else None if self.target.is_closed(name) else f"{name} is open"
        elif step.kind == "half-closes":
            self.target.half_close(name)
        elif step.kind == "disconnects":
            self.target.disconnect(name)
            del self.received[name]
        elif step.kind == "advance":
            self.target.advance(step.seconds)
        elif step.kind == "drain":
            self.target.drain()
        return None

    def expect(self, name: str, step: Step) -> Outcome:
        """Reads the next reply: exactly the step's bytes, or statistics that fit."""
        if not step.statistics:
            got = self.take(name, len(step.data), wanted=step.data)
            return None if got == step.data else f"wanted {step.data!r}, got {got!r}"
        while b"\r\n" not in self.received[name] and self.fill(name):
            pass
        line, _, _ = self.received[name].partition(b"\r\n")
        if not line.startswith(b"OK "):
            return f"wanted statistics, got {self.received[name]!r}"
        self.take(name, len(line) + 2)
        return check_statistics(self.take(name, int(line[3:]) + 2)[:-2], step.statistics) or None

    def take(self, name: str, size: int, wanted: bytes = b"") -> bytes:
        """The next bytes for a connection; fewer when no more come, or when they are not what is wanted."""
        while len(self.received[name]) < size and self.fill(name):
            if wanted and not wanted.startswith(self.received[name][:size]):
                size = len(self.received[name])
        got, self.received[name] = self.received[name][:size], self.received[name][size:]
        return got

    def fill(self, name: str, *, expected: bool = True) -> bool:
        """Receives more for a connection; false when nothing comes."""
        piece = self.target.more(name, expected=expected)
        self.received[name] += piece
        return bool(piece)

    def unexpected(self, name: str) -> bytes:
        """What a connection has got beyond what the script expected."""
        if not self.received[name]:
            self.fill(name, expected=False)
        return self.received[name]


def run(script: Script, kind: str) -> Outcome:
    """Runs a script against a fresh target."""
    is_retried = kind == "beanstalkd" and "beanstalkd retried" in script.settings
    for _ in range(BEANSTALKD_TRIES if is_retried else 1):
        with open_target(
            kind, script.body_bytes_max, BEANSTALKD_PATIENCE_S if is_retried else REPLY_TIMEOUT_S
        ) as target:
            outcome = Run(script, target).outcome()
        if outcome is None:
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
def started(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], "Future[Outcome]"]]:
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
    assert problem is None, problem


def test_scripts_begin_with_their_name() -> None:
    """A script says at its top what it is about, and the files cannot silently disappear."""
    assert len(SCRIPTS) >= 60
    for path in SCRIPTS:
        assert path.read_text().startswith(f"# {path.stem} "), f"{path.name} must begin with '# {path.stem} (item ...)'"
