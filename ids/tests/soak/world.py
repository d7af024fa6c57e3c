"""Two nodes, their database, and all that may happen to them."""

import json
import os
import random
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.databases import Database
from tests.e2e.clocked import COMMAND, set_clock
from tests.processes import START_TIMEOUT_S, environment, wait_until

BATCHES = {"order": 1_000, "code": 200, "plain": 5_000, "strict": 1}
"""Rules whose numbers end with a counter of eight digits, and how many are reserved at a time."""

FLAKES = "flake"
"""The rule whose numbers are 64-bit ones with the time in them; they count no gaps."""

RULES = """
listen = "127.0.0.1:0"
database = "{database}"
step = 2
offset = {node}

[[rule]]
name = "order"
template = "O{{year:02}}{{month:02}}{{day:02}}{{hour:02}}{{counter:08}}"
cycle = "hour"

[[rule]]
name = "code"
lua = "code.lua"
batch = 200

[[rule]]
name = "plain"
template = "{{counter:08}}"
batch = 5000

[[rule]]
name = "strict"
template = "{{counter:08}}"
batch = 1

[[rule]]
name = "flake"
kind = "snowflake"
"""

LUA = """
function min_counter() return 0 end
function max_counter() return 99999999 end
function reset_seconds() return 600 end
function create_id(counter, now, salt)
    return ("C%02d%02d%02d%02d%d%08d"):format(now:year() % 100, now:month(), now:day(), now:hour(),
        math.floor(now:minute() / 10), counter:generate_counter())
end
"""

ACCEPTABLE = {0, -signal.SIGKILL, 10, 1}
"""Exit codes: stopped, killed, another process has the node (a moment after it was killed), the database is away."""


class Node:
    """One node: its process, which comes and goes, and its clock."""

    def __init__(self, number: int, folder: Path, database: str) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "rules.toml").write_text(RULES.format(database=database, node=number))
        (folder / "code.lua").write_text(LUA)
        self.address = ("127.0.0.1", 9)
        self.losses = 0
        """Ends of a process after which what it had reserved is lost."""

        self.popen: subprocess.Popen[bytes] | None = None
        set_clock(folder, 0)

    def spawn(self, folder: Path) -> "subprocess.Popen[bytes]":
        """Starts a process of this node that tells in a folder that it is ready."""
        command = [*COMMAND, str(self.folder / "rules.toml"), str(folder)]
        with (folder / "messages").open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, env=environment())

    def start(self) -> None:
        """Starts the node, again and again while its database is away."""
        give_up_at = time.monotonic() + START_TIMEOUT_S
        ready = self.folder / "ready"
        while time.monotonic() < give_up_at:
            ready.unlink(missing_ok=True)
            self.popen = self.spawn(self.folder)
            while self.popen.poll() is None:
                if ready.exists():
                    host, port = ready.read_text().split()[0].removeprefix("udp:").rsplit(":", 1)
                    self.address = (host, int(port))
                    return
                assert time.monotonic() < give_up_at, "the node hangs at its start"
                time.sleep(0.01)
            assert self.popen.returncode in ACCEPTABLE, self.said()
        raise AssertionError(f"the node does not start:\n{self.said()}")

    def gives(self, app: str) -> bool:
        """Whether the node gives a number to an application."""
        request = {"action": "get", "rule_name": "plain", "app_name": app}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(1)
            asking.sendto(json.dumps(request).encode(), self.address)
            try:
                return bool(json.loads(asking.recv(1_000))["code"] == 0)
            except TimeoutError:
                return False

    def said(self) -> str:
        """The end of what it has logged."""
        return (self.folder / "messages").read_text(errors="replace")[-3000:]

    def failures(self) -> int:
        """How often a stop could not give back what was reserved."""
        return (self.folder / "messages").read_text(errors="replace").count("ranges not given back")

    def end(self, number: int) -> None:
        """Ends the process with a signal."""
        assert self.popen
        before = self.failures()
        self.popen.send_signal(number)
        self.popen.wait(START_TIMEOUT_S)
        assert self.popen.returncode in ACCEPTABLE, f"exit code {self.popen.returncode}:\n{self.said()}"
        gave_back = number == signal.SIGTERM and self.failures() == before
        self.losses += not gave_back

    def check(self) -> None:
        """Fails if the process has ended by itself."""
        assert self.popen
        assert self.popen.poll() is None, f"the node ended by itself with {self.popen.returncode}:\n{self.said()}"


class World:
    """What happens, drawn from a seed."""

    def __init__(self, database: Database, folder: Path, seed: int, *, kills: bool = True) -> None:
        self.database = database
        self.chance = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.nodes = [Node(number, folder / f"node{number}", database.url) for number in range(2)]
        self.events = {self.move_clock: 5, self.reload: 2, self.stop_node: 1, self.freeze_node: 1, self.start_second: 1}
        if kills:
            self.events |= {self.kill_node: 5}
        if database.server:
            self.events |= {self.kill_database: 2, self.freeze_database: 1}

    def start(self) -> None:
        """Starts all nodes."""
        for node in self.nodes:
            node.start()

    def happen(self) -> None:
        """Lets something happen."""
        event = self.chance.choices(list(self.events), list(self.events.values()))[0]
        self.happened[event.__name__] += 1
        event(self.chance.choice(self.nodes))
        for node in self.nodes:
            node.check()

    def kill_node(self, node: Node) -> None:
        """A crash of the service; its machine may come back with another time."""
        node.end(signal.SIGKILL)
        if self.chance.random() < 0.5:
            self.move_clock(node)
        node.start()

    def stop_node(self, node: Node) -> None:
        """A restart as it should be."""
        node.end(signal.SIGTERM)
        node.start()

    def freeze_node(self, node: Node) -> None:
        """A machine that stands still for a moment."""
        assert node.popen
        node.popen.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.random())
        node.popen.send_signal(signal.SIGCONT)

    def reload(self, node: Node) -> None:
        """The rules are read again, and the clock accepted."""
        assert node.popen
        node.popen.send_signal(signal.SIGHUP)

    def start_second(self, node: Node) -> None:
        """A second process of the same node, which must end by itself.

        A crash of the database takes the lock of the node away, so it is waited for that the node has it again. A
        node whose clock has jumped far ahead refuses every number, so its clock is accepted first.
        """
        self.happened["new_name"] += 1
        self.reload(node)
        wait_until(lambda: node.gives(f"new{self.happened['new_name']}"), "the node has its database", START_TIMEOUT_S)
        folder = node.folder / "second"
        folder.mkdir(exist_ok=True)
        set_clock(folder, 0)
        second = node.spawn(folder)
        try:
            code = second.wait(START_TIMEOUT_S)
        finally:
            second.kill()
            second.wait()
        assert code == 10, (folder / "messages").read_text()

    def move_clock(self, node: Node) -> None:
        """The clock jumps, back and ahead, sometimes further than the service believes."""
        set_clock(
            node.folder, self.chance.choice([0.0, self.chance.uniform(-9_000, 9_000), self.chance.uniform(-60, 60)])
        )

    def kill_database(self, node: Node) -> None:
        """A crash of the database; sometimes a node is killed while it is away."""
        server = self.database.server
        assert server
        server.kill()
        time.sleep(self.chance.choice([0, self.chance.random()]))
        if self.kill_node in self.events and self.chance.random() < 0.3:
            self.happened["kill_node"] += 1
            node.end(signal.SIGKILL)
            server.start()
            node.start()
        else:
            server.start()

    def freeze_database(self, node: Node) -> None:  # noqa: ARG002 - it happens to all nodes
        """A database that hangs."""
        assert self.database.server
        with self.database.server.frozen():
            time.sleep(2 * self.chance.random())

    def stop(self) -> None:
        """Ends all nodes as it should be."""
        for node in self.nodes:
            if node.popen and node.popen.poll() is None:
                node.end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends what is still there, whatever has happened."""
        for node in self.nodes:
            if node.popen and node.popen.poll() is None:
                os.kill(node.popen.pid, signal.SIGCONT)
                node.popen.kill()
                node.popen.wait()
