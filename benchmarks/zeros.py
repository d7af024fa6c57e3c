"""A sync in space that was only allocated, beside one in space that was written: ``python -m benchmarks.zeros DIR``.

The file system of DIR counts, so name a directory on the disk that a log would lie on.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from beanpole.log.files.disk import DiskDirectory, DiskFile

RECORD_BYTES = 8192
SYNCS = 1000
ROUNDS = 3


def measure(create: Callable[[str, int], DiskFile], directory: DiskDirectory) -> tuple[float, float]:
    """Microseconds that a write and its sync take: by the clock (p50), and of the processor."""
    file = create("probe", SYNCS * RECORD_BYTES)
    times = []
    cpu_began = time.process_time_ns()
    for i in range(SYNCS):
        began = time.perf_counter_ns()
        file.write(i * RECORD_BYTES, os.urandom(RECORD_BYTES))
        file.sync()
        times.append(time.perf_counter_ns() - began)
    cpu_us = (time.process_time_ns() - cpu_began) / SYNCS / 1000
    file.close()
    directory.unlink("probe")
    return statistics.median(times) / 1000, cpu_us


def main(path: Path) -> None:
    """Measure both in turn, and tell the medians of some rounds."""
    with tempfile.TemporaryDirectory(dir=path) as folder:
        directory = DiskDirectory(Path(folder))
        ways = {"allocated": directory.create, "written": directory.prepare}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, create in ways.items():
                found[name].append(measure(create, directory))
    for name, samples in found.items():
        p50_us, cpu_us = (statistics.median(each) for each in zip(*samples, strict=True))
        sys.stdout.write(f"{name:9}  {RECORD_BYTES} bytes: p50 {p50_us:.0f} µs, processor {cpu_us:.0f} µs\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
