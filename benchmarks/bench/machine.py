"""What the figures were measured on: machine, kernel, commit and date. Figures without these mean nothing later."""

import datetime as dt
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path


def cpu_model() -> str:
    """The processor's name for itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def commit() -> str:
    """The commit of the source tree that this file is in, or that it is in none."""
    here = Path(__file__).parent
    try:
        asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        answer = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "not a git checkout"
    return answer.stdout.strip()


def version_of(command: tuple[str, ...]) -> str:
    """What a server says about its version."""
    try:
        answer = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()


def describe(others: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """All of it, in the order in which it is printed."""
    return {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "CPU": f"{cpu_model()}, {os.cpu_count()} cores",
        "load average before": f"{os.getloadavg()[0]:.2f}",
        "kernel": platform.release(),
        "Python": platform.python_version(),
        "compared with": "; ".join(map(version_of, others)) or "nothing",
    }
