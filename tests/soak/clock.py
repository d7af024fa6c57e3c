"""A clock for a real server that only a test moves: a library, loaded before libc, that looks into a file.

With one that stands, a server looks at the clock when somebody sends a command. So what becomes due, and between which
two commands, is not a matter of how busy a machine is.
"""

import mmap
import struct
from pathlib import Path

from tests.durability.shim import compile_shim

BEGINNING = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shown;

static void begin(void) {
    int fd = open(getenv("CLOCK_FILE"), O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, 2 * sizeof *shown, PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED) abort();
    close(fd);
    shown = at;
}
"""

STANDING = (
    BEGINNING
    + r"""
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!shown) begin();
    int64_t ns = shown[0] + (clock == CLOCK_REALTIME ? shown[1] : 0);
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    (void)fd, (void)flags, (void)wanted, (void)before;
    return 0;
}
"""
)
"""Every clock shows what is in the file, the wall clock with a lead that is there too, and timers don't fire."""

SET = (
    BEGINNING
    + r"""
int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!shown) begin();
    if (!failed && clock == CLOCK_REALTIME) {
        int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *shown;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return (int)failed;
}
"""
)
"""Only the wall clock is wrong, by what is in the file; it is set when that changes."""


class Clock:
    """The clock of servers that are started with `env`. It ends with the process that made it."""

    def __init__(self, folder: Path, now_ns: int, source: str = STANDING) -> None:
        path = folder / "clock"
        path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 16)
        self.now_ns = now_ns
        self.env = {"LD_PRELOAD": str(compile_shim(folder, source)), "CLOCK_FILE": str(path)}

    @property
    def now_ns(self) -> int:
        return int(struct.unpack("=q", self.memory[:8])[0])

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        self.memory[:8] = struct.pack("=q", now_ns)

    def set_lead(self, lead_ns: int) -> None:
        """Lets the wall clock be ahead by this."""
        self.memory[8:] = struct.pack("=q", lead_ns)
