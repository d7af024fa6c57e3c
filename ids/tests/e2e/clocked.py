"""A node of the ID service whose clock a test moves: the first argument is the configuration, the second a folder.

In the folder, `ready` gets the address, and `clock` has two doubles: the seconds by which the wall clock is ahead, and
those for which the machine has slept, in which it was ahead of one that sleeps too.
"""

import mmap
import struct
import sys
import time
from pathlib import Path

from beanpole_ids import app
from beanpole_ids.cli.serve import write_ready_file
from beanpole_ids.errors import StartError
from beanpole_ids.logs import open_logger

SECONDS = struct.Struct("dd")

COMMAND = [sys.executable, str(Path(__file__))]  # what starts a node; its two arguments follow


def set_clock(folder: Path, ahead_s: float, slept_s: float = 0.0) -> None:
    """Sets the clock of a node, and lets it have slept."""
    path = folder / "clock"
    with path.open("r+b" if path.exists() else "wb") as file:  # the same file: the node has it mapped
        file.write(SECONDS.pack(ahead_s, slept_s))


def main(config: Path, folder: Path) -> int:
    """Serves until it is stopped; returns the exit code."""
    with (folder / "clock").open("rb") as file:
        offset = mmap.mmap(file.fileno(), SECONDS.size, prot=mmap.PROT_READ)

    def wall_s() -> float:
        return time.time() + float(sum(SECONDS.unpack_from(offset)))

    def steady_s() -> float:
        return app.since_boot_s() + float(SECONDS.unpack_from(offset)[1])

    clocks = app.Clocks(wall_s, steady_s)
    try:
        return app.serve(config, open_logger("json"), lambda found: write_ready_file(folder / "ready", found), clocks)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
