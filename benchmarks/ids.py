"""What a number of the ID service costs: requests/s, latency, and CPU of the server, row beside row in one run.

Run with `make bench-ids`, or `python -m benchmarks.ids ROW...` for some rows. A row is a server process of its own and
four client processes. The clients are cheap: datagrams that were built before, a few in flight, and no look into the
replies but at the first and the last. Latency is from a send to the receive of its reply, at the client. CPU is that
of the server's process, the kernel's part of receiving and sending included. Where clients have the same cores as the
server, or the machine has other work, requests/s say less than CPU.
"""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 2.0
CLIENTS = 4
DATAGRAMS = 1_000
"""Different requests of a client; they differ in their `seq`."""

START_TIMEOUT_S = 20.0
LOST_AFTER_S = 0.5
TICKS = os.sysconf("SC_CLK_TCK")

RULES = """
listen = "127.0.0.1:0"
database = "sqlite:///{folder}/ids.db"
offset = 0

[[rule]]
name = "template"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:012}}"
cycle = "day"
batch = 10000

[[rule]]
name = "large"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:012}}"
cycle = "day"
batch = 500000

[[rule]]
name = "snowflake"
kind = "snowflake"

[[rule]]
name = "lua"
lua = "order.lua"
batch = 100000
"""

LUA = """
function min_counter() return 0 end
function max_counter() return 999999999999 end
function reset_seconds() return 86400 end
function create_id(counter, now, salt)
    local number = counter:generate_counter()
    return string.format("O%s%02d%02d%02d%012d", salt, now:year() % 100, now:month(), now:day(), number)
end
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What is measured."""

    what: str
    rule: str
    count: int = 1
    in_flight: int = 4
    latency_ms: int = 0
    """How much longer each commit of the database takes."""

    least: int = 0
    """Numbers a second that are promised; 0 if none are."""


ROWS = {
    "lua": Row("get, Lua", "lua", least=50_000),
    "template": Row("get, template", "template", least=70_000),
    "one": Row("get, template, one in flight", "template", in_flight=1),
    "slow": Row("get, template, database + 20 ms", "template", latency_ms=20),
    "count": Row("count 1000, template", "large", count=1000, in_flight=1, least=2_000_000),
    "count-slow": Row("count 1000, database + 20 ms", "large", count=1000, in_flight=1, latency_ms=20),
    "count-lua": Row("count 1000, Lua", "lua", count=1000, in_flight=1),
    "snowflake": Row("get, snowflake", "snowflake"),
}


def serve(arguments: list[str], latency_ms: int) -> int:
    """Serves as `beanpole ids serve` does, with commits that take longer."""
    import sqlalchemy as sa  # noqa: PLC0415 - only the server's process needs it

    from beanpole.cli.main import main  # noqa: PLC0415 - see above

    if latency_ms:
        sa.event.listen(sa.Engine, "commit", lambda _: time.sleep(latency_ms / 1000))
    return main(["ids", "serve", *arguments])


def client(port: int, row: Row, number: int, results: Any) -> None:  # noqa: ANN401 - a queue
    """Asks for numbers for a while; tells how many requests were answered, and their latencies."""
    fields: dict[str, object] = {"action": "get", "app_name": "shop", "rule_name": row.rule}
    if row.count > 1:
        fields["count"] = row.count
    datagrams = [json.dumps(fields | {"seq": number * DATAGRAMS + each}).encode() for each in range(DATAGRAMS)]
    found, lost, done = array("d"), 0, 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect(("127.0.0.1", port))
        connection.settimeout(LOST_AFTER_S)
        for each in (datagrams[-1], datagrams[-2]):  # the counter is loaded, and its range is reserved
            connection.send(each)
            reply = json.loads(connection.recv(70_000))
            assert reply["code"] == 0, reply
        send, receive, clock = connection.send, connection.recv, time.perf_counter
        sent_at: deque[float] = deque()
        stop_at = clock() + SECONDS
        for each in range(row.in_flight):
            sent_at.append(clock())
            send(datagrams[each])
        while (now := clock()) < stop_at:
            try:
                reply_bytes = receive(70_000)
            except TimeoutError:
                lost += len(sent_at)
                sent_at.clear()
                for each in range(row.in_flight):
                    sent_at.append(now)
                    send(datagrams[each])
                continue
            now = clock()
            found.append(now - sent_at.popleft())
            done += 1
            sent_at.append(now)
            send(datagrams[done % DATAGRAMS])
        assert b'"code":0,' in reply_bytes, reply_bytes[:500]
    results.put((done, lost, found.tobytes()))


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(row: Row) -> tuple[float, float, float, float, int]:
    """Numbers a second, CPU µs a request, p50 and p99 in µs, and requests that were lost."""
    with tempfile.TemporaryDirectory() as folder:
        config, ready = Path(folder, "rules.toml"), Path(folder, "ready")
        config.write_text(RULES.format(folder=folder))
        Path(folder, "order.lua").write_text(LUA)
        command = [sys.executable, "-m", "benchmarks.ids", "--serve", str(row.latency_ms)]
        with Path(folder, "messages").open("wb") as messages:
            server = subprocess.Popen(
                [*command, str(config), "--ready-file", str(ready)], stdout=messages, stderr=messages
            )
        try:
            give_up_at = time.monotonic() + START_TIMEOUT_S
            while not ready.exists():
                assert server.poll() is None, Path(folder, "messages").read_text()
                assert time.monotonic() < give_up_at, "the server is not ready"
                time.sleep(0.01)
            port = int(ready.read_text().split()[0].rpartition(":")[2])
            results: Any = multiprocessing.Queue()
            clients = [multiprocessing.Process(target=client, args=(port, row, n, results)) for n in range(CLIENTS)]
            before_s = cpu_s(server.pid)
            for each in clients:
                each.start()
            answers = [results.get(timeout=SECONDS + START_TIMEOUT_S) for _ in clients]
            used_s = cpu_s(server.pid) - before_s
            for each in clients:
                each.join()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    found = array("d")
    for _, _, some in answers:
        found.frombytes(some)
    ordered = sorted(found)
    done = len(ordered)
    assert done, "nothing was answered"
    return (
        done * row.count / SECONDS,
        used_s / done * 1e6,
        ordered[done // 2] * 1e6,
        ordered[done * 99 // 100] * 1e6,
        sum(lost for _, lost, _ in answers),
    )


def main(names: list[str]) -> None:
    """Prints a line for each row."""
    sys.stdout.write(f"{'':34} {'numbers/s':>10} {'promised':>10} {'CPU µs/request':>14} {'p50 µs':>8} {'p99 µs':>8}\n")
    for name in names or ROWS:
        row = ROWS[name]
        rate, cpu_us, p50_us, p99_us, lost = measure(row)
        promised = f"{row.least:10,}" if row.least else " " * 10
        sys.stdout.write(f"{row.what:34} {rate:10,.0f} {promised} {cpu_us:14.1f} {p50_us:8.0f} {p99_us:8.0f}")
        sys.stdout.write(f"  {lost} lost\n" if lost else "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(serve(sys.argv[3:], int(sys.argv[2])))
    main(sys.argv[1:])
