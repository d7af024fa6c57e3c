"""The shop and all that it needs, on this machine, in a temporary folder: kill what you like, it is started again.

With the programs of PostgreSQL: a database, in which are the shop's tables and the log of a cluster of two nodes, so
that an order and its job are one transaction. Without them, or with ``--sqlite``: one server with a log of its own,
SQLite, and a relay between the two.

``make shop`` runs it; elsewhere ``pip install '.[cluster,console,django,relay]'`` and ``python examples/shop/run.py``.
Ctrl-C ends it. In production all of this is systemd's, see docs/install.md.
"""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
BEANPOLE = (sys.executable, "-m", "beanpole")
MANAGE = (sys.executable, "manage.py")

PATH = os.pathsep.join([os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
"""Debian has PostgreSQL's programs where a user's PATH does not lead."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        return [int(stack.enter_context(socket.create_server((HOST, 0))).getsockname()[1]) for _ in range(count)]


def do(*command: str | Path) -> None:
    """Run a command to its end. Raises CalledProcessError."""
    subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[None]:
    """Make a database server in a folder, and a database for shop and cluster; end it afterwards."""
    # It refuses to run as root. Its socket is in the folder, and only there it listens.
    owner = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    if owner:
        shutil.chown(folder, "nobody", "nogroup")

    def run(name: str, *flags: str) -> None:
        command = [shutil.which(name, path=PATH), "-D", folder / "postgres", *flags]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, **owner)

    run("initdb", "--username=shop", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    run("pg_ctl", "-w", "-l", str(folder / "postgres.log"), "-o", f"-k {folder} -c listen_addresses=", "start")
    try:
        do(shutil.which("createdb", path=PATH), "--host", folder, "--username", "shop", "shop")
        yield
    finally:
        run("pg_ctl", "-m", "fast", "stop")


def programs(folder: Path, has_postgres: bool) -> dict[str, tuple[str, ...]]:
    """Set up what the shop needs; return the programs that must run."""
    web, console, a, b = (f"{HOST}:{port}" for port in free_ports(4))
    os.environ |= {
        "CONSOLE_URL": f"http://{console}",
        "DJANGO_SUPERUSER_USERNAME": "shop",
        "DJANGO_SUPERUSER_PASSWORD": "shop",
        "DJANGO_SUPERUSER_EMAIL": "shop@example.org",
        "PYTHONUNBUFFERED": "1",
    }
    if has_postgres:
        os.environ |= {
            "PGHOST": str(folder),
            "PGUSER": "shop",
            "PGDATABASE": "shop",
            "BEANPOLE_URL": f"beanstalk://{a},{b}",
        }
        do(*BEANPOLE, "cluster", "init", "postgresql:///shop", "--inbox", "--cluster-durability", "local")
        node = (*BEANPOLE, "serve", "--cluster", "postgresql:///shop", "--node")
        queue = {"node-a": (*node, "a", "-l", a, "--http", console), "node-b": (*node, "b", "-l", b)}
    else:
        database = folder / "shop.sqlite3"
        os.environ |= {"SHOP_SQLITE": str(database), "BEANPOLE_URL": f"beanstalk://{a}"}
        queue = {
            "server": (*BEANPOLE, "serve", "-l", a, "-b", str(folder / "log"), "--http", console),
            "relay": (*BEANPOLE, "relay", "run", f"sqlite:///{database}", "--to", a),
        }
    do(*MANAGE, "migrate", "--verbosity", "0")
    do(*MANAGE, "createsuperuser", "--noinput")
    print(f"the shop:    http://{web}/")
    print(f"the admin:   http://{web}/admin/ (user and password: shop)")
    print(f"the console: http://{console}/")
    print(f"the queue:   {os.environ['BEANPOLE_URL']}")
    print(f"the logs:    {folder}", flush=True)
    return queue | {
        "worker": (*BEANPOLE, "worker", "shop.worker:worker"),
        "web": (*MANAGE, "runserver", "--noreload", web),
    }


def keep(folder: Path, commands: dict[str, tuple[str, ...]]) -> None:
    """Start programs, and start again what ends, until a signal ends us."""
    running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}

    def start(name: str) -> None:
        # What people want to see is shown; the rest has files. A group of its own, so that Ctrl-C is for us alone.
        with (folder / f"{name}.log").open("ab") as log:
            output = None if name in {"web", "worker"} else log
            made = subprocess.Popen(commands[name], cwd=HERE, stdout=output, stderr=output, process_group=0)
        running[made.pid] = name, made
        print(f"{name} is process {made.pid}", flush=True)

    try:
        for name in commands:
            start(name)
        while True:
            pid, _ = os.wait()
            if pid in running:
                name, _ = running.pop(pid)
                print(f"{name} has ended, and is started again", flush=True)
                time.sleep(0.5)
                start(name)
    finally:
        for _, program in reversed(running.values()):
            program.terminate()
            program.wait()


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", action="store_true", help="also where PostgreSQL's programs are")
    has_postgres = not parser.parse_args().sqlite and shutil.which("initdb", path=PATH) is not None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beanpole-shop-")))
        if has_postgres:
            stack.enter_context(postgres(folder))
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        keep(folder, programs(folder, has_postgres))


if __name__ == "__main__":
    main()
