"""What commands cost the server, beside what its turn takes them to cost (``server/limits.py``).

Run with `python -m benchmarks.costs`. One client sends each command a few thousand times, as fast as the server takes
it, and reads the replies. The figure is the server's processor time for one of them, with its share of receiving and
sending: weights need to be right within a factor of two, so that a turn that should take 4 ms takes less than 8.
"""

import socket
import sys
import threading

from beanpole.engine.commands.table import cost_ns_of
from beanpole.protocol.commands import Verb
from beanpole.server import limits
from benchmarks.flood import cpu_ns
from tests.servers import HOST, beanpole_server

ROUNDS = 5
TIMEOUT_S = 30
WATCHED = 1_000
LARGE = 64_000
IN = LARGE * limits.INPUT_BYTE_COST_NS
OUT = (LARGE >> limits.OUTPUT_COST_SHIFT) + LARGE * limits.SEND_BYTE_COST_NS
PLAIN = cost_ns_of(Verb.LIST_TUBE_USED)
SMALL = b"put 0 0 60 5\r\nhello\r\n"
BIG = b"put 0 0 60 %d\r\n%b\r\n" % (LARGE, b"x" * LARGE)

# What is sent before, what is measured, how often it is sent, and what the table says it costs.
CASES = {
    "list-tube-used": (b"", b"list-tube-used\r\n", 20_000, PLAIN),
    "put, delete": (b"", SMALL + b"reserve\r\ndelete 0\r\n", 10_000, 3 * cost_ns_of(Verb.PUT)),
    "stats": (b"", b"stats\r\n", 2_000, cost_ns_of(Verb.STATS)),
    "stats-tube": (b"", b"stats-tube default\r\n", 4_000, cost_ns_of(Verb.STATS_TUBE)),
    "stats-job": (BIG, b"stats-job 1\r\n", 4_000, cost_ns_of(Verb.STATS_JOB)),
    "explain, 1000 before": (SMALL * 2_000, b"explain 2000\r\n", 4_000, cost_ns_of(Verb.EXPLAIN)),
    "list-tubes": (b"", b"list-tubes\r\n", 4_000, cost_ns_of(Verb.LIST_TUBES)),
    "peek, 64 kB": (BIG, b"peek 1\r\n", 1_000, PLAIN + OUT),
    "put, 64 kB": (b"", BIG, 1_000, PLAIN + IN),
    "reserve, 1000 watched": (
        b"".join(b"watch t%d\r\n" % each for each in range(WATCHED)),
        b"reserve-with-timeout 0\r\n",
        4_000,
        PLAIN + WATCHED * limits.WATCH_COST_NS,
    ),
}


def measure(before: bytes, command: bytes, count: int) -> float:
    """Return the nanoseconds of the server's processor time that a command takes."""
    with beanpole_server() as server, socket.create_connection((HOST, server.port), TIMEOUT_S) as connection:
        connection.sendall(before + b"end\r\n")
        while not connection.recv(1 << 20).endswith(b"UNKNOWN_COMMAND\r\n"):
            pass
        used_ns = []
        for _ in range(ROUNDS):
            used_before_ns = cpu_ns(server.pid)
            sender = threading.Thread(target=connection.sendall, args=(command * count + b"end\r\n",))
            sender.start()
            end = b""
            while not end.endswith(b"UNKNOWN_COMMAND\r\n"):
                end = end[-20:] + connection.recv(1 << 20)
            sender.join()
            used_ns.append(cpu_ns(server.pid) - used_before_ns)
    return min(used_ns) / count


def main() -> None:
    """Measure each command on a server of its own."""
    sys.stdout.write(f"{'ns of processor time':<24}{'measured':>10}{'in the table':>14}\n")
    for name, (before, command, count, table_ns) in CASES.items():
        sys.stdout.write(f"{name:<24}{measure(before, command, count):>10,.0f}{table_ns:>14,}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
