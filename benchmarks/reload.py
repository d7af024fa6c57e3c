"""What a quiet client waits for while the files of users are read again.

Run with `python -m benchmarks.reload`. A thousand users have twenty patterns and ten connections each, which logged
in with a token. First all rights change, then a tenth of the users lose their tokens. Meanwhile one client keeps asking
`list-tube-used`. For its longest wait the benchmark also prints how much processor time the server's loop used, which
hardly depends on what else the machine does.
"""

import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from benchmarks.flood import cpu_ns
from tests.e2e.process import serving
from tests.servers import HOST

USERS, PATTERNS, CONNECTIONS = 1_000, 20, 10
SECONDS = 4
ROUNDS = 3


def users(rights: str) -> str:
    """The file of users."""
    mine = [f"[user.u{each}]\n{rights} = {[f't{each}-{at}-*' for at in range(PATTERNS)]}\n" for each in range(USERS)]
    return f"[user.quiet]\n{rights} = ['quiet']\n" + "".join(mine)


def replace(path: Path, text: str) -> None:
    """Write a file as an editor does."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.rename(path)


def longest_ms(client: socket.socket, pid: int) -> tuple[float, float]:
    """Ask for some seconds; return the longest wait, and the most processor time in one, in ms."""
    waited = used = 0.0
    ends_s = time.monotonic() + SECONDS
    while time.monotonic() < ends_s:
        before_ns, asked_s = cpu_ns(pid), time.perf_counter()
        client.sendall(b"list-tube-used\r\n")
        client.recv(100)
        waited = max(waited, (time.perf_counter() - asked_s) * 1e3)
        used = max(used, (cpu_ns(pid) - before_ns) / 1e6)
    return waited, used


def enter(path: Path, token: str) -> socket.socket:
    """Connect as a user."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.sendall(f"auth {token}\r\n".encode())
    assert client.recv(100).startswith(b"AUTHENTICATED")
    return client


def main() -> None:
    """Measure nothing, a reload of rights, and one that closes connections."""
    with tempfile.TemporaryDirectory() as folder:
        access, tokens, path = Path(folder, "access.toml"), Path(folder, "tokens"), Path(folder, "socket")
        given = [f"bp_{secrets.token_urlsafe(32)}" for _ in range(USERS)]
        lines = [f"u{at} sha256:{sha256(each.encode()).hexdigest()}\n" for at, each in enumerate(given)]
        cases = {
            "nothing": lambda _: None,
            "all rights change": lambda number: replace(access, users(("put", "reserve")[number % 2])),
            "a tenth of the users may no longer come in": lambda number: replace(
                tokens, "".join(lines[USERS // 10 * (number + 1) :])
            ),
        }
        replace(access, users("put"))
        replace(tokens, "".join(lines))
        flags = ("-l", f"{HOST}:0,user=quiet", "-l", f"unix:{path}", "--access", str(access), "--tokens", str(tokens))
        with serving(*flags, listen=False) as process:
            pid = process.popen.pid
            port = int(process.addresses[0].rpartition(":")[2])
            crowd = [enter(path, each) for each in given for _ in range(CONNECTIONS)]
            client = socket.create_connection((HOST, port))
            sys.stdout.write(f"{'ms, the longest of ' + str(ROUNDS) + ' rounds':<46}{'wait':>9}{'CPU':>9}\n")
            for name, change in cases.items():
                found = []
                for number in range(ROUNDS):
                    change(number + 1)
                    os.kill(pid, signal.SIGHUP)
                    found.append(longest_ms(client, pid))
                figures = (max(each[at] for each in found) for at in (0, 1))
                sys.stdout.write(f"{name:<46}" + "".join(f"{each:>9.2f}" for each in figures) + "\n")
                sys.stdout.flush()
            for each in crowd:
                each.close()


if __name__ == "__main__":
    main()
