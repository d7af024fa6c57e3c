"""Golden scripts against a node that passes its clients on: replies wait for PostgreSQL, and are the same.

A few, as each needs a fresh cluster. With BEANPOLE_CLUSTER_SCRIPTS=1 it is all those in which no time passes, which
takes some minutes.
"""

import os

import pytest

from beanpole.conformance.run import Run, ServerTarget
from beanpole.conformance.script import SCRIPTS, Script, read_script
from tests.clusters import clustered_server
from tests.databases import DatabaseServers
from tests.scripts.target import SETTLE_S
from tests.scripts.test_scripts import applies
from tests.servers import REPLY_TIMEOUT_S

ALWAYS = (
    "cancel_reserve",
    "half_close_ends_waiting",
    "half_close_runs_what_is_buffered",
    "many_commands_in_one_piece",
    "put_half_uploaded",
    "quit_drops_the_rest",
    "reserve_chain_of_wakes",
)
"""What forwarding, or waiting for a row, could get wrong."""


def is_meant(script: Script) -> bool:
    """Whether a script can run against a node: no time passes, and nothing drains, which nodes refuse."""
    return (
        applies(script, "beanpole") and script.seconds == 0 and not any(step.kind == "drain" for step in script.steps)
    )


CASES = [
    script
    for script in map(read_script, SCRIPTS)
    if is_meant(script) and (os.environ.get("BEANPOLE_CLUSTER_SCRIPTS") or script.path.stem in ALWAYS)
]


@pytest.mark.parametrize("script", CASES, ids=lambda script: script.path.stem)
def test_script_through_a_follower(script: Script, database_servers: DatabaseServers) -> None:
    """The conversation goes as written."""
    size = script.body_bytes_max
    with clustered_server(database_servers, body_bytes_max=size, follower=True) as server:
        target = ServerTarget(server.connect, server.drain, REPLY_TIMEOUT_S, SETTLE_S)
        try:
            problem = Run(script, target).outcome()
        finally:
            target.close()
    assert problem is None, str(problem)


def test_the_scripts_that_always_run_are_there() -> None:
    """A name that is changed does not take its test away."""
    assert set(ALWAYS) <= {script.path.stem for script in CASES}
