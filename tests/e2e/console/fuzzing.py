"""Schemathesis against a console: requests made of its own openapi.json, and answers held against it.

`python -m tests.e2e.console.fuzzing SECONDS` does it for longer, with jobs and tubes of its own in the place of any.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beanpole import Client
from tests.e2e.console.api import asked
from tests.e2e.console.process import TOKEN, Console, acting
from tests.servers import HOST, beanpole_server

THERE = """
[parameters]
"path.tube" = "a/b"
"path.id" = 1
"path.run" = 1
"path.schedule" = "nightly"
"""
"""What makes it ask for what is there: it can't guess names of tubes."""


@contextmanager
def world() -> Iterator[Console]:
    """A console that may change things, of a server with jobs in each state, with rules and a failure."""
    with beanpole_server() as server, Client(f"{HOST}:{server.port}") as client:
        client.set_rules("a*", {"attempts": 1})
        client.set_schedule("nightly", "x", cron="30 2 * * *", zone="Europe/Berlin")
        for tube in ("a/b", "a"):
            client.put_many(["x"] * 5, tube=tube)
            client.put("later", tube=tube, delay=3600, key="k")
            client.watch(tube)
        client.fail_job(client.reserve(timeout=0), "no such mailbox")
        client.bury(client.reserve(timeout=0))
        client.reserve(timeout=0)
        with acting(server) as served:
            asked(served, "/actions", 200, "POST", body={"verb": "resume", "server": "one", "tube": "a"}, token=TOKEN)
            yield served


def fuzz(served: Console, *flags: str, config: str = "") -> "subprocess.CompletedProcess[str]":
    """Runs schemathesis. What it prints says how to repeat what has failed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "schemathesis.toml").write_text(config)
        return subprocess.run(
            [
                f"{Path(sys.executable).parent}/schemathesis",
                "--config-file",
                "schemathesis.toml",
                "run",
                f"http://{HOST}:{served.port}/openapi.json",
                f"--header=Authorization: Bearer {TOKEN}",
                "--no-color",
                *flags,
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )


def main() -> None:
    """Fuzzes for as many seconds as the first argument says; others are flags for schemathesis."""
    seconds, *flags = sys.argv[1:] or ["600"]
    failed = False
    for config in ("", THERE):
        with world() as served:
            done = fuzz(
                served,
                "--phases=coverage,fuzzing",
                "--max-examples=10000",
                "--generation-database=none",
                f"--max-time={int(seconds) // 2}",
                *flags,
                config=config,
            )
            sys.stdout.write(done.stdout + done.stderr)
            failed = failed or done.returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
