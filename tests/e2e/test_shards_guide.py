"""The guide to two shards goes as it is written: each block runs, in its order, at an address of the test's own."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.process import environment, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, START_TIMEOUT_S, stop_process

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shards.md").read_text()
SECTION = PAGE.partition("## Scale-out: from one server")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
STAYS = ("serve", "route", "reserve")  # commands that go on while others run
PORTS = {"serve": "11300", "route": "11310"}
MOMENT = re.compile(r"[\d.]+(?= s, as was asked)")


class Guide:
    """A folder in which the commands run. Each machine of Linux has all addresses of 127/8: this one is the test's."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.address = f"127.7.{os.getpid() // 256 % 256}.{os.getpid() % 254 + 1}"
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = environment({"PATH": path})
        self.router_log = ""
        self.said = ""

    def write(self, text: str) -> None:
        """Write the file that its first line names."""
        (self.folder / text.splitlines()[0].removeprefix("# ")).write_text(text.replace(HOST, self.address))

    def do(self, line: str) -> None:
        """Run a line of a block."""
        words = shlex.split(line.replace(HOST, self.address))
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
        elif words[1] in STAYS:
            self.stack.enter_context(self.running(words))
        else:
            done = subprocess.run(
                words,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=REPLY_TIMEOUT_S,
            )
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            self.said += done.stdout
            if words[0] == "mv":
                wait_until(lambda: "map read" in (self.folder / "route.log").read_text(), "the router has the map")

    @contextmanager
    def running(self, words: list[str]) -> Iterator[None]:
        """Run a command until the test ends; return when a server answers."""
        with (self.folder / f"{words[1]}.log").open("ab") as log:
            process = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        try:
            if words[1] in PORTS:
                flags = dict(pairwise(words))
                port = int(flags["-l"].partition(":")[2] or flags.get("-p", PORTS[words[1]]))
                wait_until(lambda: self.answers(port), f"{words} answers", START_TIMEOUT_S)
            yield
        finally:
            stop_process(process)

    def answers(self, port: int) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((self.address, port)) == 0

    def done(self) -> list[str]:
        file = self.folder / "done.txt"
        return file.read_text().split() if file.exists() else []


def test_from_one_server_to_two_shards(tmp_path: Path) -> None:
    with ExitStack() as stack:
        guide = Guide(tmp_path, stack)
        for kind, text in BLOCKS:
            if kind == "toml":
                guide.write(text)
            elif kind == "text":
                said = guide.said.replace(guide.address, HOST)
                assert MOMENT.sub("-", said).endswith(MOMENT.sub("-", text))
            else:
                for line in text.splitlines():
                    guide.do(line)

        def says_that_before_may_go() -> bool:
            guide.do("beanpole shards status shards.toml")
            return guide.said.endswith("shards-1.toml may leave before: nothing lies by it alone\n")

        wait_until(says_that_before_may_go, "nothing lies by the map before")
        guide.do("beanpole kick 8796093022209")
        wait_until(lambda: len(guide.done()) == 5, "all jobs are done")
        assert sorted(guide.done()) == ["five", "four", "one", "three", "two"]
