"""The guide from nothing to a server with users goes as it is written: each block runs, at a free port."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import environment, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, START_TIMEOUT_S, free_port, stop_process

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "access.md").read_text()
SECTION = PAGE.partition("## From nothing in ten minutes")[2].partition("\n### ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


def shell(script: str, folder: Path, *, stops: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run a script with the commands of this installation; `stops` says whether it does at what fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["sh", *(["-e"] if stops else []), "-c", script]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment({"PATH": path}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=REPLY_TIMEOUT_S,
    )


def test_each_block_does_what_it_says(tmp_path: Path) -> None:
    (_, certificates), (_, users), (_, files), (_, commands) = BLOCKS
    files, _, server = files.partition("beanpole serve")
    port = free_port()
    server = server.replace(f"tls:{HOST}", f"tls:{HOST}:{port}")
    commands = commands.replace("//localhost", f"//localhost:{port}")
    assert shell(certificates, tmp_path).returncode == 0
    (tmp_path / "access.toml").write_text(users)
    made = shell(files, tmp_path)
    assert made.returncode == 0, made.stderr
    words = ["beanpole", "serve", *server.replace("\\\n", "").split(), "--ready-file", "ready"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environment(), stdout=log, stderr=log
        )
        try:
            wait_until((tmp_path / "ready").exists, "the server is ready", START_TIMEOUT_S)
            done = shell(commands, tmp_path, stops=False)
        finally:
            stop_process(process)
    assert done.stdout == "1\none order\n", done.stderr
    assert "reserve from orders: FORBIDDEN: this user lacks the right reserve on orders" in done.stderr
