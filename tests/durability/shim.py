"""A disk that obeys a test: a library, loaded before libc, that counts, holds and fails the calls that reach the disk.

The server process is the real one; only `fdatasync`, `fsync` and `pwrite` pass through here first. Files in a folder
are the switches, looked at in every call:

    hold-sync    syncs wait as long as it exists
    fail-sync    syncs fail with EIO
    fail-write   writes fail with EIO
    syncs        gets a byte for each sync that has begun
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static int is_on(const char *name) {
    char path[4096];
    const char *folder = getenv("DISK_SWITCHES");
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void count(void) {
    char path[4096];
    const char *folder = getenv("DISK_SWITCHES");
    if (!folder) return;
    snprintf(path, sizeof path, "%s/syncs", folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, ".", 1) != 1) abort();
    close(fd);
}

static int sync_through(const char *name, int fd) {
    count();
    while (is_on("hold-sync")) usleep(1000);
    if (is_on("fail-sync")) { errno = EIO; return -1; }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fdatasync(int fd) { return sync_through("fdatasync", fd); }
int fsync(int fd) { return sync_through("fsync", fd); }

static ssize_t write_through(const char *name, int fd, const void *data, size_t size, off64_t offset) {
    if (is_on("fail-write")) { errno = EIO; return -1; }
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, name);
    return real(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return write_through("pwrite", fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return write_through("pwrite64", fd, data, size, offset);
}
"""


def impossible(what: str) -> NoReturn:
    """Ends a test that this machine can't run: a skip for a user, a failure in CI."""
    if os.environ.get("CI"):
        pytest.fail(what + ", and CI must skip nothing")
    pytest.skip(what)


def compile_shim(folder: Path, text: str = SOURCE) -> Path:
    """Compiles a library that is loaded before libc; returns its path."""
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(text)
    try:
        done = subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        impossible("there is no C compiler")
    if done.returncode:
        impossible(f"the C compiler can't build a library: {done.stderr}")
    return library


class Switches:
    """What a test sets about the disk of a server that was started with `env`."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.folder = folder
        self.env = {"LD_PRELOAD": str(library), "DISK_SWITCHES": str(folder)}

    def sync_count(self) -> int:
        """How many syncs have begun."""
        path = self.folder / "syncs"
        return path.stat().st_size if path.exists() else 0

    def set(self, name: str) -> None:
        (self.folder / name).touch()

    def clear(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def holding_syncs(self) -> Iterator[None]:
        """No sync ends in here."""
        self.set("hold-sync")
        try:
            yield
        finally:
            self.clear("hold-sync")
