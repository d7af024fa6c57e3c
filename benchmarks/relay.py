"""What a relay takes from a table to a server: ``python -m benchmarks.relay``.

PostgreSQL and MariaDB, each a server of our own on this machine with its syncs on, and a Beanpole with a log, whose
replies wait for the disk. The rows lie there when the relays start; measured from their start to the last job, so
that a relay's own start is in it unless there are many rows.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import sqlalchemy as sa

from beanpole.relay.outbox import Outbox
from tests.databases import DatabaseServer, MariaServer, database_server, is_there
from tests.e2e.process import serving
from tests.servers import HOST

PROGRAM = [sys.executable, "-m", "beanpole", "relay"]
NAME = "beanpole_outbox"
BODY_BYTES = 200
PIECE = 5_000


def measure(kind: type[DatabaseServer], rows: int, relays: int) -> float:
    """Return the rows a second."""
    rows -= rows % PIECE
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serving("-b", str(folder / "log")))
        url = stack.enter_context(stack.enter_context(database_server(kind)).new_database())
        outbox = Outbox(url, NAME)
        stack.callback(outbox.close)
        outbox.make()
        engine = sa.create_engine(url)
        table = sa.Table(NAME, sa.MetaData(), autoload_with=engine)
        given = {"tube": "mail", "body": b"x" * BODY_BYTES}
        for _ in range(rows // PIECE):
            with engine.begin() as connection:
                connection.execute(sa.insert(table), [given] * PIECE)
        engine.dispose()
        begun = time.perf_counter()
        command = [*PROGRAM, "run", url, "--to", f"{HOST}:{server.port}"]
        running = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(relays)]
        while server.statistic("current-jobs-ready") < rows:
            time.sleep(0.02)
        seconds = time.perf_counter() - begun
        for each in running:
            each.send_signal(signal.SIGTERM)
            each.wait()
        assert outbox.status().rows == 0
        return rows / seconds


def lines(rows: int, counts: list[int]) -> Iterator[str]:
    for kind in (DatabaseServer, MariaServer):
        if not is_there(kind.name):
            yield f"{kind.name}: not installed"
            continue
        for relays in counts:
            yield f"{kind.name}, relays: {relays}: {measure(kind, rows, relays):.0f} rows/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--relays", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    for line in lines(given.rows, given.relays):
        print(line, flush=True)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
