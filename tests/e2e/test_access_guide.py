"""The guide from nothing to a server with users goes as it is written: each block runs, at a free port."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import environment, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, START_TIMEOUT_S, free_port, kept_port, peer, stop_process

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "access.md").read_text()
SECTION = PAGE.partition("## From nothing in ten minutes")[2].partition("\n### Behind HAProxy")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)

# What a program does that has opened the connection of the guide.
PUT_AS_SHOP = r"""
$queue = fsockopen('127.0.0.1', 11300);
fwrite($queue, "use orders\r\nput 0 0 60 3\r\ntwo\r\nwatch orders\r\nreserve-with-timeout 0\r\n");
for ($line = 0; $line < 4; $line++) echo fgets($queue);
"""
RESERVE_AS_WORKER = r"""
fwrite($queue, "watch orders\r\nreserve\r\n");
for ($line = 0; $line < 3; $line++) echo fgets($queue);
"""


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
    (_, certificates), (_, users), (_, files), (_, commands), (_, stunnel), (_, php) = BLOCKS
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
            said = through(stunnel, port, tmp_path, [PUT_AS_SHOP, php + RESERVE_AS_WORKER])
        finally:
            stop_process(process)
    assert done.stdout == "1\none order\n", done.stderr
    assert "reserve from orders: FORBIDDEN: this user lacks the right reserve on orders" in done.stderr
    assert said == [
        "USING orders\nINSERTED 2\nWATCHING 2\nUNKNOWN_COMMAND\n",
        "WATCHING 2\nRESERVED 2 3\ntwo\n",
    ]


def through(settings: str, port: int, folder: Path, programs: list[str]) -> list[str]:
    """What programs in PHP print that connect to a stunnel with the guide's settings."""
    php, stunnel = peer("php"), peer("stunnel")
    with kept_port() as own:
        for old, new in {
            "queue.example.org:11400": f"localhost:{port}",
            "queue.example.org": "localhost",
            "127.0.0.1:11300": f"{HOST}:{own}",
        }.items():
            assert old in settings
            settings = settings.replace(old, new)
        (folder / "stunnel.conf").write_text(settings)
        process = subprocess.Popen([stunnel, "stunnel.conf"], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: listens(own), "stunnel listens", START_TIMEOUT_S)
            return [
                subprocess.run(
                    [php, "-r", each.replace("11300", str(own))],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=REPLY_TIMEOUT_S,
                ).stdout
                for each in programs
            ]
        finally:
            stop_process(process)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0
