"""jackd, a client from npm that pipelines, does what its users do with it; `make peers` installs it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.old import set_rules
from tests.servers import beanpole_server, missing_peer, peer

ROOT = Path(__file__).parents[2]
FLOW_COUNT = 7
WAYS_TO_FAIL = 4
ATTEMPTS, BACKOFF_S, FACTOR = 3, 0.1, 3
TIMEOUT_S = 120


def run(script: str, *arguments: object) -> str:
    """What a script prints that uses jackd; it must succeed."""
    node = peer("node")
    modules = ROOT / "node_modules"
    if not (modules / "jackd").is_dir():
        missing_peer("jackd (make peers)")
    done = subprocess.run(
        [node, str(Path(__file__).with_name(script)), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=os.environ | {"NODE_PATH": str(modules)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("flags", [(), ("--one-reply-per-send",)], ids=["default", "one-reply-per-send"])
def test_usual_flows(flags: tuple[str, ...]) -> None:
    with beanpole_server(*flags) as server:
        assert run("jackd_flows.js", server.port).count("ok ") == FLOW_COUNT


def test_handlers_that_always_fail_are_tried_ever_later_and_their_jobs_put_aside() -> None:
    with beanpole_server() as server:
        set_rules(server, "jackd-*", f"attempts: {ATTEMPTS}", f"backoff: {BACKOFF_S} factor {FACTOR}", "dead: dead")
        answers = run("jackd_attempts.js", server.port, ATTEMPTS, BACKOFF_S, FACTOR)
        assert answers.count("ok ") == WAYS_TO_FAIL
