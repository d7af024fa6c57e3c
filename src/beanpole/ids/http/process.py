"""What the process costs, as Linux knows it: the metrics that programs have for Prometheus, by their usual names."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Own(NamedTuple):
    """A metric of the process."""

    kind: str
    name: str
    help: str
    value: float


def own_metrics() -> Iterator[Own]:
    """Return the metrics of this process (proc_pid_stat(5))."""
    fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()  # from the third on
    user, system, start, virtual, resident = (int(fields[place]) for place in (11, 12, 19, 20, 21))
    ticks = os.sysconf("SC_CLK_TCK")
    boot_s = int(Path("/proc/stat").read_text().partition("\nbtime ")[2].split()[0])
    open_fds, (max_fds, _) = sum(1 for _ in Path("/proc/self/fd").iterdir()), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Own("gauge", "process_virtual_memory_bytes", "Virtual memory.", virtual)
    yield Own("gauge", "process_resident_memory_bytes", "Resident memory.", resident * resource.getpagesize())
    yield Own("gauge", "process_start_time_seconds", "When the process started, in Unix time.", boot_s + start / ticks)
    yield Own("counter", "process_cpu_seconds_total", "CPU time of all threads.", (user + system) / ticks)
    yield Own("gauge", "process_open_fds", "Open file descriptors.", open_fds)
    yield Own("gauge", "process_max_fds", "How many of them there may be.", max_fds)
