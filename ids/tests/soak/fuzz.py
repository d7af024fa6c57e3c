"""`python -m tests.soak.fuzz`: datagrams and HTTP of strangers for ten minutes, and a client beside them.

Two processes send what `hostile` makes, as fast as they can: one datagrams from many sockets, the other bytes over many
connections, whole, in pieces, or never finished. They record the numbers that they get. Strangers are on machines of
their own, so these two have the processors only while nobody else wants them. Beside them the rules are
reloaded, a client in C asks a thousand times a second, and another one asks for numbers and for the health.

The service must live, answer the quiet clients, repeat no number, and log no error of ours. That the quiet client's p99
is short is asserted if `p99_ms` is not 0: on a machine that has other work it says nothing.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.programs import Load, Server, start_load, stop_load

from tests.e2e.hostile import datagram, http_request
from tests.e2e.process import Ids, running
from tests.processes import REPLY_TIMEOUT_S, START_TIMEOUT_S

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

RULES = """
listen = "127.0.0.1:0"
database = "sqlite:///{folder}/ids.db"
offset = 0

[http]
listen = "127.0.0.1:0"

[[limit]]
rule = "limited"
rate = 50

[[rule]]
name = "order"
template = "{{year:04}}{{month:02}}{{day:02}}{{counter:010}}"
cycle = "day"

[[rule]]
name = "lua"
lua = "order.lua"

[[rule]]
name = "strict"
template = "{{counter:010}}"
batch = 1

[[rule]]
name = "flake"
kind = "snowflake"

[[rule]]
name = "limited"
template = "{{counter:010}}"

[[rule]]
name = "small"
template = "{{counter:02}}"
maximum = 20
"""

LUA = """
function min_counter() return 0 end
function max_counter() return 9999999999 end
function reset_seconds() return 86400 end
function create_id(counter, now, salt)
    return string.format("%04d%02d%02d%010d", now:year(), now:month(), now:day(), counter:generate_counter())
end
"""

GETS = ("order", "order", "order", "lua", "flake", "strict", "limited")
UDP_SOCKETS = 64
LOWEST = 19
"""The priority of strangers, as nice(2) counts."""

CONNECTIONS = 64
BURST = 32
RELOAD_S = 5.0
ASK_S = 0.1
LINGER_NOT = struct.pack("ii", 1, 0)
"""Close a connection at once, with a reset."""

QUIET = '{"action":"get","app_name":"quiet","rule_name":"order","seq":########}'
IDS = re.compile(rb'\{"rule":\s*"[^"]*",\s*"app":\s*"[^"]*",\s*"ids":\s*\[[^\]]*\]\}')
MOVED = re.compile("again")
"""The application whose numbers come again, as its requests have one `request_id`."""

Numbers = dict[str, "array[int]"]
"""The numbers that came, by rule and application, in digits."""


@dataclass
class Report:
    """What happened."""

    seed: int
    quiet: Load
    numbers: int = 0
    twice: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    messages: str = ""
    exit_code: int = 0

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        quiet = f"p99 {self.quiet.p99_us / 1000:.1f} ms, {self.quiet.lost:,} of {self.quiet.sent:,} lost"
        return f"seed {self.seed}: {self.numbers:,} numbers, {self.twice} twice; quiet client: {quiet}\n{counts}"

    def check(self, p99_ms: float = 0) -> None:
        """Assert that all is well."""
        assert self.numbers, str(self)
        assert not self.twice, str(self)
        assert self.quiet.done, str(self)
        assert self.exit_code == 0, f"{self}\n{self.messages}"
        assert "Traceback" not in self.messages, f"{self}\n{self.messages}"
        assert "request failed" not in self.messages, f"{self}\n{self.messages}"
        assert self.counts["health 200"], str(self)
        assert not p99_ms or self.quiet.p99_us <= p99_ms * 1000, f"the p99 is above {p99_ms} ms: {self}"


class Recorder:
    """What a process got."""

    def __init__(self) -> None:
        self.numbers: Numbers = defaultdict(lambda: array("Q"))
        self.counts: Counter[str] = Counter()

    def take_reply(self, data: bytes) -> None:
        """Record the numbers of a reply over UDP."""
        self.counts["replies"] += 1
        reply = json.loads(data.decode("utf-8", "surrogateescape"))  # names that differ in bytes must not become one
        self.counts[f"code {reply['code']}"] += 1
        if reply["code"] == 0 and reply.get("action") in {"get", "create"} and "request_id" not in reply:
            self.take(reply["rule_name"], reply["app_name"], reply["data"])

    def take_http(self, data: bytes) -> None:
        """Record the numbers of what came over HTTP."""
        for found in IDS.findall(data):
            body = json.loads(found)
            self.counts["HTTP replies with numbers"] += 1
            if not MOVED.match(body["app"]):
                self.take(body["rule"], body["app"], body["ids"])

    def take(self, rule: str, app: str, ids: str | list[str]) -> None:
        """Record numbers. A small rule has few, and those that begin with the time are shared by all applications."""
        if rule != "small":
            key = rule if rule == "flake" else f"{rule} {app}"
            self.numbers[key].extend(int(each) for each in ([ids] if isinstance(ids, str) else ids))


def request(chance: random.Random) -> bytes:
    """A datagram: half of them right."""
    if chance.random() < 0.5:
        return datagram(chance)
    fields: dict[str, object] = {"action": "get", "app_name": "shop", "rule_name": chance.choice(GETS)}
    if chance.random() < 0.05:
        fields["app_name"] = f"n{chance.randrange(5_000)}"
    if chance.random() < 0.02:
        fields["count"] = chance.randint(1, 1_000)
    return json.dumps(fields).encode()


def send_datagrams(port: int, seed: int, ending: Event, results: "Queue[tuple[Numbers, Counter[str]]]") -> None:
    """Say that it begins, then send and read until told to end."""
    os.nice(LOWEST)
    chance, recorder = random.Random(seed), Recorder()
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(UDP_SOCKETS)]
    for each in sockets:
        each.bind(("127.0.0.2", 0))
        each.connect(("127.0.0.1", port))
        each.setblocking(False)
    results.put(({}, Counter(strangers=1)))
    while not (ending.is_set() and recorder.counts["datagrams"]):  # it may have had no processor until then
        one = chance.choice(sockets)
        for _ in range(BURST):
            with suppress(OSError):  # the buffer is full, or the datagram is too large
                one.send(request(chance))
                recorder.counts["datagrams"] += 1
        for each in chance.sample(sockets, 4):
            read_all(each, recorder.take_reply)
    results.put((dict(recorder.numbers), recorder.counts))


def read_all(one: socket.socket, take: Callable[[bytes], None]) -> None:
    """Read the datagrams that are there."""
    for _ in range(BURST * UDP_SOCKETS):
        try:
            data = one.recv(70_000)
        except OSError:
            return
        take(data)


class Connection:
    """A connection of a stranger."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.bind(("127.0.0.2", 0))
        self.socket.settimeout(REPLY_TIMEOUT_S)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.got = b""

    def act(self, chance: random.Random, recorder: Recorder) -> bool:
        """Do something; return whether the connection is still there."""
        try:
            kind = chance.random()
            if kind < 0.6:
                data = http_request(chance)
                self.socket.send(data if kind < 0.5 else data[: chance.randrange(len(data) + 1)])
                recorder.counts["HTTP requests"] += 1
            elif kind < 0.65:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                return False
            elif kind < 0.7:
                self.socket.shutdown(socket.SHUT_WR)
            return self.read(recorder)
        except BlockingIOError:
            return True
        except OSError:
            return False

    def read(self, recorder: Recorder) -> bool:
        """Read what is there; return whether more may come."""
        data = self.socket.recv(1 << 18)
        if not data:
            return False
        *complete, rest = re.split(rb"(?<=\]\})", self.got + data)
        recorder.take_http(b"".join(complete))
        self.got = rest[-(1 << 16) :]
        return True


def send_http(port: int, seed: int, ending: Event, results: "Queue[tuple[Numbers, Counter[str]]]") -> None:
    """Say that it begins, then open, use and close connections until told to end."""
    os.nice(LOWEST)
    chance, recorder = random.Random(seed), Recorder()
    connections: list[Connection | None] = [None] * CONNECTIONS
    results.put(({}, Counter(strangers=1)))
    while not (ending.is_set() and recorder.counts["HTTP requests"]):  # see above
        place = chance.randrange(CONNECTIONS)
        connection = connections[place]
        if connection is None:
            with suppress(OSError):
                connections[place] = Connection(port)
                recorder.counts["connections"] += 1
        elif not connection.act(chance, recorder):
            connection.socket.close()
            connections[place] = None
    results.put((dict(recorder.numbers), recorder.counts))


@contextmanager
def strangers(service: Ids, web_port: int, seed: int) -> Iterator[Callable[[], list[tuple[Numbers, Counter[str]]]]]:
    """Both processes; what they yield ends them and returns what they got."""
    context = multiprocessing.get_context("spawn")
    ending, results = context.Event(), context.Queue()
    places = ((send_datagrams, service.socket.getpeername()[1]), (send_http, web_port))
    processes = [
        context.Process(target=send, args=(port, seed + number, ending, results), daemon=True)
        for number, (send, port) in enumerate(places)
    ]
    for each in processes:
        each.start()

    def end() -> list[tuple[Numbers, Counter[str]]]:
        ending.set()
        return [results.get(timeout=START_TIMEOUT_S) for _ in processes]

    try:
        for _ in processes:
            results.get(timeout=START_TIMEOUT_S)  # it begins
        yield end
        for each in processes:
            each.join(REPLY_TIMEOUT_S)
    finally:
        for each in processes:
            each.kill()


def ask(service: Ids, recorder: Recorder, seq: int) -> None:
    """Ask for a number, which may be lost on the way, as any datagram."""
    with suppress(TimeoutError):
        service.socket.send(json.dumps({"action": "get", "app_name": "a", "rule_name": "order", "seq": seq}).encode())
        recorder.take_reply(service.socket.recv(70_000))
        recorder.counts["numbers of the one that asks"] += 1


def ask_health(port: int, recorder: Recorder) -> None:
    """Ask for the health over a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        recorder.counts[f"health {connection.getresponse().status}"] += 1
    except OSError:
        recorder.counts["health without an answer"] += 1
    finally:
        connection.close()


def run(folder: Path, seconds: float, seed: int) -> Report:
    """Let strangers send for a while; report what came of it."""
    config = folder / "rules.toml"
    config.write_text(RULES.format(folder=folder))
    (folder / "order.lua").write_text(LUA)
    recorder = Recorder()
    with running(folder, config, limits={}) as service:
        web_port = int((folder / "ready").read_text().split()[1].rpartition(":")[2].rstrip("/"))
        server = Server(service.popen, service.socket.getpeername()[1], web_port, folder)
        service.socket.settimeout(1)
        quiet = start_load(server, QUIET, f"-r 1000 -t {seconds + 600}")
        with strangers(service, web_port, seed) as end:
            begun, seq = time.monotonic(), 0
            reload_at = begun + RELOAD_S
            while time.monotonic() < begun + seconds:
                assert service.popen.poll() is None, f"seed {seed}: the service ended\n{service.messages()}"
                seq += 1
                ask(service, recorder, seq)
                ask_health(web_port, recorder)
                if time.monotonic() >= reload_at:
                    service.popen.send_signal(signal.SIGHUP)
                    reload_at += RELOAD_S
                time.sleep(ASK_S)
            found = end()
        report = Report(seed, stop_load(quiet))
        report.counts["resident MiB"] = server.resident_bytes() >> 20
        report.exit_code = service.end()
        report.messages = service.messages()
    judge(report, [*found, (dict(recorder.numbers), recorder.counts)])
    return report


def judge(report: Report, found: list[tuple[Numbers, Counter[str]]]) -> None:
    """Add up what all got, and count what came twice."""
    together: Numbers = defaultdict(lambda: array("Q"))
    for numbers, counts in found:
        report.counts.update(counts)
        for key, some in numbers.items():
            together[key].extend(some)
    for key, some in together.items():
        report.numbers += len(some)
        report.twice += len(some) - len(set(some))
        if len(some) > len(set(some)):
            report.counts[f"numbers of {key!r}, of which some came twice"] = len(some)


def main() -> None:
    """Run, and print what happened; an assertion says what should not have."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.fuzz", description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=600, help="how long (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is sent (%(default)s)")
    parser.add_argument("--p99-ms", type=float, default=20, help="the quiet client's at most; 0: any (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), options.seconds, options.seed)
    sys.stdout.write(f"{report}\n")
    report.check(options.p99_ms)


if __name__ == "__main__":
    main()
