"""jackd, a client from npm that pipelines, does what its users do with it; `make peers` installs it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.servers import beanpole_server, missing_peer, peer

ROOT = Path(__file__).parents[2]
FLOWS = Path(__file__).with_name("jackd_flows.js")
FLOW_COUNT = 7
TIMEOUT_S = 60


@pytest.mark.parametrize("flags", [(), ("--one-reply-per-send",)], ids=["default", "one-reply-per-send"])
def test_usual_flows(flags: tuple[str, ...]) -> None:
    node = peer("node")
    modules = ROOT / "node_modules"
    if not (modules / "jackd").is_dir():
        missing_peer("jackd (make peers)")
    with beanpole_server(*flags) as server:
        done = subprocess.run(
            [node, str(FLOWS), str(server.port)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env=os.environ | {"NODE_PATH": str(modules)},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == FLOW_COUNT
