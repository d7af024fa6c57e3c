"""A disk that is nearly full: a tmpfs of a chosen size, in a mount namespace that nobody else sees.

A process of its own holds the namespace, so that the files outlive a server; everybody reaches them below
`/proc/PID/root`. When that process ends, the kernel unmounts. Root needs `unshare -m`, a user a user namespace besides.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.durability.shim import impossible


class SmallDisk:
    """A file system of a size."""

    def __init__(self, holder: "subprocess.Popen[str]", mount_point: Path) -> None:
        self.holder = holder
        self.mount_point = mount_point
        self.path = Path(f"/proc/{holder.pid}/root{mount_point}")

    def run(self, command: str) -> bool:
        """Runs a command of the shell within the namespace; whether it went well."""
        assert self.holder.stdin is not None, "the holder was started with a pipe"
        assert self.holder.stdout is not None, "the holder was started with a pipe"
        self.holder.stdin.write(f"({command}) && echo yes || echo no\n")
        self.holder.stdin.flush()
        return self.holder.stdout.readline() == "yes\n"

    def resize(self, size: int) -> None:
        assert self.run(f"mount -o remount,size={size} {self.mount_point}"), "the disk can't be resized"

    def free_bytes(self) -> int:
        """Bytes that can still be written."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_bsize


@contextmanager
def small_disk(mount_point: Path, size: int, as_whom: dict[str, Any] | None = None) -> Iterator[SmallDisk]:
    """A new file system of `size` bytes, which belongs to this user or to another."""
    alone = ["unshare", "-m"] if os.geteuid() == 0 and not as_whom else ["unshare", "-Urm"]
    try:
        holder = subprocess.Popen(
            [*alone, "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            **(as_whom or {}),
        )
    except FileNotFoundError:
        impossible("there is no program named unshare")
    disk = SmallDisk(holder, mount_point)
    try:
        try:
            mounted = disk.run(f"mount -t tmpfs -o size={size},mode=0700 tmpfs {mount_point} && test -w {disk.path}")
        except BrokenPipeError:
            mounted = False
        if not mounted:
            impossible("this user may not mount a file system, not even in a namespace")
        yield disk
    finally:
        holder.communicate()
