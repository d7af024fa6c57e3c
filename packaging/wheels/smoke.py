"""Tries an installed Beanpole from outside: `python packaging/wheels/smoke.py`, with the python that has it.

A job outlives a kill, a worker does it, the console can be imported, and what runs is compiled.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path

WAIT_S = 60

TASKS = """
import os, signal
import beanpole

worker = beanpole.Worker()

@worker.handler("mails")
def send(job):
    print("sent", job.body, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a server on a free port; its address. It is killed at the end, whatever happens."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    flags = ["-l", "127.0.0.1", "-p", "0", "-b", str(folder / "data"), "--ready-file", str(ready)]
    server = subprocess.Popen([*BEANPOLE, "serve", *flags], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + WAIT_S
        while not ready.exists():
            if server.poll() is not None or time.monotonic() > until:
                sys.exit("the server is not ready")
            time.sleep(0.05)
        yield ready.read_text().split()[0].removeprefix("tcp:")
    finally:
        server.kill()
        server.wait()


def run(folder: Path, *arguments: str) -> str:
    """Return what a command prints."""
    done = subprocess.run([*BEANPOLE, *arguments], cwd=folder, stdout=subprocess.PIPE, timeout=WAIT_S, check=True)
    return done.stdout.decode().strip()


def expect(wanted: str, found: str) -> None:
    """End when something else was found."""
    if found != wanted:
        sys.exit(f"expected {wanted!r}, not {found!r}")


def main() -> None:
    """Try it in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tasks.py").write_text(TASKS)
        expect(f"beanpole {version('beanpole')}", run(folder, "--version"))
        with serving(folder) as url:
            id = run(folder, "put", "--url", url, "-t", "mails", "to: you")
        with serving(folder) as url:
            expect("to: you", run(folder, "peek", id, "--url", url))
            expect("sent to: you", run(folder, "worker", "tasks:worker", "--url", url))
    compiled = "import beanpole.console.app, beanpole.engine.engine as engine; print(engine.__file__)"
    where = subprocess.run([sys.executable, "-c", compiled], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    if not where.endswith(tuple(EXTENSION_SUFFIXES)):
        sys.exit(f"{where} is not compiled")
    print(f"It works with Python {sys.version.split()[0]}.")


BEANPOLE = [str(Path(sys.executable).with_name("beanpole"))]

if __name__ == "__main__":
    main()
