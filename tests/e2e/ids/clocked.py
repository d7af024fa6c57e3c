"""A node of the ID service whose clock a test moves: the first argument is the configuration, the second a folder.

In the folder, `ready` gets the address, and `clock` has the seconds, as a double, by which the clock is ahead.
"""

import mmap
import struct
import sys
import time
from pathlib import Path

from beanpole.errors import StartError
from beanpole.ids import app
from beanpole.server.logs import open_logger
from beanpole.server.process import write_ready_file

SECONDS = struct.Struct("d")

COMMAND = [sys.executable, str(Path(__file__))]
"""What starts a node; its two arguments follow."""


def set_clock(folder: Path, ahead_s: float) -> None:
    """Sets the clock of a node."""
    path = folder / "clock"
    with path.open("r+b" if path.exists() else "wb") as file:  # the same file: the node has it mapped
        file.write(SECONDS.pack(ahead_s))


def main(config: Path, folder: Path) -> int:
    """Serves until it is stopped; returns the exit code."""
    with (folder / "clock").open("rb") as file:
        offset = mmap.mmap(file.fileno(), SECONDS.size, prot=mmap.PROT_READ)

    def wall_s() -> float:
        return time.time() + float(SECONDS.unpack_from(offset)[0])

    try:
        return app.serve(config, open_logger("json"), lambda found: write_ready_file(folder / "ready", found), wall_s)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
