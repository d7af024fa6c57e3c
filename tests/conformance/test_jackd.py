"""jackd, a client from npm that pipelines, does what its users do with it; `make peers` installs it."""

import os
import subprocess
from pathlib import Path

import pytest

from beanpole import Client
from tests.conformance.old import set_rules
from tests.e2e.worker.program import MODULE, program
from tests.servers import HOST, WAYS, beanpole_server, missing_peer, peer

ROOT = Path(__file__).parents[2]
FLOW_COUNT = 7
WAYS_TO_FAIL = 4
ATTEMPTS, BACKOFF_S, FACTOR = 3, 0.1, 3
TIMEOUT_S = 600
TENANTS = 999
JOBS_EACH = 2


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


@pytest.mark.parametrize("way", ["default", "one-reply-per-send", "HAProxy"])
def test_usual_flows(way: str) -> None:
    with WAYS[way]() if way in WAYS else beanpole_server("--one-reply-per-send") as server:
        assert run("jackd_flows.js", server.port).count("ok ") == FLOW_COUNT


def test_handlers_that_always_fail_are_tried_ever_later_and_their_jobs_put_aside() -> None:
    with beanpole_server() as server:
        set_rules(server, "jackd-*", f"attempts: {ATTEMPTS}", f"backoff: {BACKOFF_S} factor {FACTOR}", "dead: dead")
        answers = run("jackd_attempts.js", server.port, ATTEMPTS, BACKOFF_S, FACTOR)
        assert answers.count("ok ") == WAYS_TO_FAIL


MAIL = """

@worker.handler("mail")
async def mail(task):
    note("end", task)
"""


@pytest.mark.parametrize("backlog", [10_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_tenants_take_turns_beside_one_with_very_many_jobs(tmp_path: Path, backlog: int) -> None:
    """Clients that know no groups put; a worker of ours and one of theirs do the jobs, each of which goes out once."""
    (tmp_path / "handlers.py").write_text(MODULE + MAIL)
    with beanpole_server() as server, Client((HOST, server.port)) as client:
        set_rules(server, "mail;*", "groups: split")
        set_rules(server, "mail", "groups: fair")
        run("jackd_tenants.js", server.port, "put", TENANTS, JOBS_EACH, backlog)
        with program(tmp_path, server.port) as worker:
            theirs = run("jackd_tenants.js", server.port, "work", TENANTS // 4).splitlines()
            worker.wait_ledger("end", TENANTS * JOBS_EACH + 50 - len(theirs))
            assert worker.stop() == 0
        ours = worker.ledger("end")
        left = client.stats_tube("mail").current_jobs_ready
        done = set(ours + theirs)
        assert len(done) == len(ours + theirs) == TENANTS * JOBS_EACH + backlog - left
        assert done >= {f"{tenant} {number}" for tenant in range(TENANTS) for number in range(JOBS_EACH)}
        for bodies in (ours, theirs):
            large = [body.startswith("large") for body in bodies]
            last = max(place for place, is_large in enumerate(large) if not is_large)
            assert sum(large[:last]) <= 2 * JOBS_EACH, "a turn of all has one job of the large tenant, or a worker two"
