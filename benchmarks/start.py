"""How long a server takes from exec to its first answer, beside an import of asyncio, which it can't avoid.

Run with `python -m benchmarks.start [ROUNDS]`. They take turns, the server also with ``--http``; each figure is the
median. Connected is when the kernel takes a client's connection. Processor time, which is the server's without its
console's, hardly depends on what else the machine does.
"""

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time

from benchmarks.flood import cpu_ns
from tests.servers import HOST

ROUNDS = 15
RETRY_S = 0.0005


def imported() -> tuple[float, ...]:
    """Seconds of wall and of processor time that an interpreter takes for the imports."""
    began_s = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", "import asyncio"])
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - began_s, usage.ru_utime + usage.ru_stime, 0.0


def served(*flags: str) -> tuple[float, ...]:
    """Seconds of wall and of processor time until a server has answered, and until it has taken the connection."""
    with socket.create_server((HOST, 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "beanpole", "serve", "-l", HOST, "-p", str(port), *flags]
    began_s = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        while True:
            with contextlib.suppress(OSError):
                connection = socket.create_connection((HOST, port))
                break
            time.sleep(RETRY_S)
        connected_s = time.perf_counter() - began_s
        with connection:
            connection.sendall(b"list-tube-used\r\n")
            connection.recv(100)
        answered_s, used_s = time.perf_counter() - began_s, cpu_ns(server.pid) / 1e9
        server.terminate()
    return answered_s, used_s, connected_s


def main() -> None:
    """Print the medians, and the ratio of the two."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    samples = [(imported(), served(), served("--http", f"{HOST}:0")) for _ in range(rounds)]
    base, server, console = (
        [statistics.median(column) for column in zip(*rows, strict=True)] for rows in zip(*samples, strict=True)
    )
    sys.stdout.write(f"{'':<26}{'wall ms':>9}{'CPU ms':>9}{'connected':>11}\n")
    rows = (("import asyncio", base), ("first answer", server), ("first answer, --http", console))
    for name, (wall_s, used_s, connected_s) in rows:
        sys.stdout.write(f"{name:<26}{wall_s * 1e3:>9.1f}{used_s * 1e3:>9.1f}{connected_s * 1e3:>11.1f}\n")
    for name, found in (("ratio", server), ("ratio, --http", console)):
        sys.stdout.write(f"{name:<26}{found[0] / base[0]:>9.2f}{found[1] / base[1]:>9.2f}\n")


if __name__ == "__main__":
    main()
