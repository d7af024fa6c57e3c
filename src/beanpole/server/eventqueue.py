"""What happens outside: an epoll descriptor, a timer in it, sockets that accept, and the server's clock."""

import errno
from collections.abc import Callable

import cython
from cython.cimports.beanpole import posix
from cython.cimports.libc.errno import ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memset

from beanpole.server import limits

ACCEPT_REPORT_NS = cython.declare(int64_t, limits.ACCEPT_REPORT_NS)
ACCEPT_RETRY_NS = cython.declare(int64_t, limits.ACCEPT_RETRY_NS)
SECOND_NS = cython.declare(int64_t, 1_000_000_000)


def now_ns() -> int:
    return posix.monotonic_ns()


@cython.cclass
class Stranger:
    """What has connected and is no client yet."""

    def wake(self, now_ns):
        """Read, as something has happened to its descriptor."""
        return 0


@cython.cclass
class Greeter:
    """What meets those that come to a listener, before they are clients."""

    def meet(self, now_ns, fd, listener):
        """Take a socket that was accepted."""
        return 0

    def make_room(self, now_ns):
        """Close one that is no client yet, as there is no place for another; False: there is none."""
        return False


@cython.cclass
class Welcome(Greeter):
    """Calls what is not compiled."""

    def meet(self, now_ns, fd, listener):
        self.call(fd)
        return 0


@cython.cclass
class EventQueue:
    """Descriptors that are watched, and one moment by which to wake. The fields stand in ``eventqueue.pxd``."""

    def __cinit__(self):
        self.epoll_fd = posix.epoll_create1(posix.EPOLL_CLOEXEC)
        self.timer_fd = posix.timerfd_create(posix.CLOCK_MONOTONIC, posix.TFD_NONBLOCK | posix.TFD_CLOEXEC)
        if self.epoll_fd < 0 or self.timer_fd < 0:
            raise OSError(last_error, "cannot create an epoll or timer descriptor")
        self.watch_fd(self.timer_fd, posix.EPOLLIN | posix.EPOLLET, posix.EPOLL_CTL_ADD)
        self.listeners = {}
        self.greeters = {}
        self.strangers = {}
        self.readers = {}
        self.loop_fd = -1

    def __dealloc__(self):
        if self.timer_fd >= 0:
            posix.close(self.timer_fd)
        if self.epoll_fd >= 0:
            posix.close(self.epoll_fd)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a turn has something to do."""
        return self.epoll_fd

    def now(self):
        """Return the time on the engine's clock: that of its log, or the monotonic one if it has none."""
        # One type on both sides of a conditional expression, or the sum is one of Python's integers.
        now: int64_t = posix.monotonic_ns() if self.clock is None else cython.cast(int64_t, self.clock())
        return now + self.clock_offset_ns

    def watch_fd(self, fd, events, operation):
        """Watch a descriptor in the epoll, or change or end that."""
        event: posix.epoll_event
        event.events = events
        event.data.u64 = 0
        event.data.fd = fd
        if posix.epoll_ctl(self.epoll_fd, operation, fd, cython.address(event)) < 0:
            raise OSError(last_error, "epoll_ctl failed")
        return 0

    def close_fd(self, fd):
        """Close a descriptor that is watched, if it got that far.

        That it is watched ends first. A process that is being started has a copy of it until it runs its own program,
        and while there is one the epoll goes on to report what happens to it, under a number that may be another's.
        """
        posix.epoll_ctl(self.epoll_fd, posix.EPOLL_CTL_DEL, fd, cython.NULL)
        posix.close(fd)
        return 0

    def wake_by(self, now_ns, due_ns):
        """Let the timer fire by a moment of the clock; -1: there is none. It may fire earlier.

        Accepting goes on here if it has paused long enough.
        """
        if self.accept_retry_ns:
            if self.accept_retry_ns <= now_ns:
                self.resume_accepting()
            elif due_ns < 0 or self.accept_retry_ns < due_ns:
                due_ns = self.accept_retry_ns
        if due_ns < 0 or (now_ns < self.armed_ns <= due_ns):
            return 0
        when: posix.itimerspec
        memset(cython.address(when), 0, cython.sizeof(posix.itimerspec))
        fires_ns: int64_t = max(due_ns - self.clock_offset_ns, 1)
        when.it_value.tv_sec = fires_ns // SECOND_NS
        when.it_value.tv_nsec = max(fires_ns % SECOND_NS, 1)
        self.armed_ns = due_ns
        posix.timerfd_settime(self.timer_fd, posix.TFD_TIMER_ABSTIME, cython.address(when), cython.NULL)
        return 0

    # --- turns, and asyncio in them -----------------------------------------------------------------------------------

    def run_turn(self, wait_ms):
        """Wait until something happens, at most `wait_ms` milliseconds, below 0 for ever; do what that asks for.

        A turn that can't be run sets `interrupted`.
        """
        raise AssertionError("a subclass says how")

    def is_busy(self):
        """Whether there is something to do for which no descriptor is ready."""
        return False

    def note_own(self, fd):
        """Take note that the timer, or a descriptor of the loop, is ready."""
        if fd == self.loop_fd:
            self.loop_ready = True
        elif fd == self.timer_fd:
            self.armed_ns = 0  # also if it fired since the turn looked at the clock, and was too early for this
        elif fd in self.strangers:
            cython.cast(Stranger, self.strangers[fd], typecheck=True).wake(self.now())
        elif fd in self.readers:
            self.readable = [fd] if self.readable is None else [*self.readable, fd]
        return 0

    def call_readers(self):
        """Call for the descriptors of the loop that are readable."""
        readable, self.readable = self.readable, None
        for fd in readable:
            if fd in self.readers:
                self.readers[fd]()
        return 0

    def serve(self, timeout_s: cython.double) -> bool:
        """Run turns until the loop has something to do; return whether one of its descriptors is ready.

        `timeout_s` is in seconds, below 0: no end. What asks the loop for a call sets `interrupted`.
        """
        ends_ns: int64_t = posix.monotonic_ns() + cython.cast(int64_t, timeout_s * 1e9)
        left_ns: int64_t
        wait_ms: cython.int
        self.interrupted = self.loop_ready = False
        while True:
            wait_ms = -1
            left_ns = 1
            if timeout_s >= 0:
                left_ns = ends_ns - posix.monotonic_ns()
                wait_ms = max(left_ns + 999_999, 0) // 1_000_000
            self.run_turn(0 if self.is_busy() else wait_ms)
            if self.loop_ready or self.interrupted or left_ns <= 0:
                return self.loop_ready

    def serve_for(self, fd: cython.int) -> None:
        """Let the turns be run by :meth:`serve`, for a loop whose descriptors are behind `fd`; -1: no more."""
        self.loop_fd = fd
        if fd >= 0:
            self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_ADD)

    def add_reader(self, fd: cython.int, call: Callable[[], object]) -> None:
        """Call after a turn when a descriptor is readable."""
        self.readers[fd] = call
        self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_ADD)

    def remove_reader(self, fd: cython.int) -> None:
        """Call no more."""
        del self.readers[fd]
        self.watch_fd(fd, 0, posix.EPOLL_CTL_DEL)

    # --- accepting ----------------------------------------------------------------------------------------------------

    def listen(self, fd: cython.int, is_unix: cython.bint) -> None:
        """Accept connections from a listening socket, which stays the caller's to close."""
        self.listeners[fd] = is_unix
        self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_ADD)

    def greet(self, fd: cython.int, is_unix: cython.bint, call: Callable[[int], object]) -> None:
        """Accept connections from a listening socket, and call with the descriptor of each."""
        welcome: Welcome = Welcome()
        welcome.call = call
        self.meet_by(welcome, fd, is_unix)

    def meet_by(self, greeter: Greeter, fd: cython.int, is_unix: cython.bint) -> None:
        """Accept connections from a listening socket, and let each be met before it is a client."""
        self.greeters[fd] = greeter
        self.listen(fd, is_unix)

    def has_no_place(self):
        """Whether there are as many clients as there may be."""
        return False

    def make_room(self, now_ns):
        """Close one that is no client yet for another; False: there is none."""
        for each in self.greeters.values():  # noqa: SIM110 - a generator would be one of Python's
            if cython.cast(Greeter, each, typecheck=True).make_room(now_ns):
                return True
        return False

    def accept_from(self, now_ns, listener):
        """Accept one client of a listening socket; -1: none waits there, or accepting has paused."""
        fd: cython.int
        while True:
            fd = posix.accept4(listener, cython.NULL, cython.NULL, posix.SOCK_NONBLOCK | posix.SOCK_CLOEXEC)
            if fd >= 0:
                return fd
            if last_error == EMFILE or last_error == ENFILE or last_error == ENOBUFS or last_error == ENOMEM:
                self.pause_accepting(now_ns, last_error)
                return -1
            if last_error != ECONNABORTED and last_error != EINTR:
                return -1

    def pause_accepting(self, now_ns, reason):
        """Leave new clients in the backlog for a while: there is no place for them. Those that are there go on."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_MOD)
        self.accept_retry_ns = now_ns + ACCEPT_RETRY_NS
        if now_ns >= self.accept_report_ns:
            self.accept_report_ns = now_ns + ACCEPT_REPORT_NS
            self.observer.accept_paused(errno.errorcode[reason])
        return 0

    def resume_accepting(self):
        """Accept again, if that was paused."""
        if self.accept_retry_ns:
            self.accept_retry_ns = 0
            for fd in self.listeners:
                self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_MOD)
        return 0

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_DEL)
        self.listeners = {}
        self.accept_retry_ns = 0
