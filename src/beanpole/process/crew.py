"""Several processes that do the same, and one that keeps them running.

The one that keeps them starts another for each that ends, and imports nothing of the user's. They share a pipe, the
lifeline, of which only this process has the end for writing: when that closes, because it stops or has died, they stop
in good order. So it makes no difference who gets the signal first, this process or all of them at once, as from a
terminal or from systemd; a second signal kills them.

The first process begins alone. If it ends before it is ready, so would the others, and what it says stands there once.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from beanpole.errors import ExitCode
from beanpole.process.child import pause_after

STOPS = (signal.SIGINT, signal.SIGTERM)
HANDLED = (*STOPS, signal.SIGCHLD)

STEADY_S = 10.0  # seconds after which the end of a process is no failure to start: another begins at once
RESTART_S = 1.0  # seconds between the end of a process that fails again and again and its next start: the first time
RESTART_S_MAX = 30.0  # and at most

OnEnd = Callable[[int, int, int, float], None]
"""Called when a process has ended that is started again: its number, its id, its exit code as the system says it
(below 0: a signal), and in how many seconds."""


@dataclass(slots=True)
class Lifeline:
    """What a process that works knows of the one that has started it."""

    number: int  # which of the processes this is, from 1
    parent: int  # the end for reading of the lifeline
    ready: int  # where it says that it is ready

    def begin(self, stop: Callable[[], None]) -> None:
        """Says that this process is ready; calls `stop` in a thread when the parent stops, or is gone."""

        def watch() -> None:
            os.read(self.parent, 1)
            stop()

        with contextlib.suppress(OSError):  # the parent is gone: that is what the thread finds
            os.write(self.ready, b".")
        os.close(self.ready)
        threading.Thread(target=watch, name="beanpole-lifeline", daemon=True).start()


@dataclass(slots=True)
class Process:
    """One of the processes: that which runs, or the one to come."""

    number: int
    pid: int = 0  # 0: none runs
    ready: int = -1  # the end for reading of the pipe on which it says that it is ready; -1: it has, or none runs
    started_s: float = 0.0
    due_s: float = 0.0  # when the next one is started
    failures: int = 0  # how often in a row it has ended soon, and not with 0


class Crew:
    """Starts processes that each call `work`, and another for each that ends, until a signal stops them."""

    def __init__(self, count: int, work: Callable[[Lifeline], int], on_end: OnEnd) -> None:
        self._work = work
        self._on_end = on_end
        self._all = [Process(number) for number in range(1, count + 1)]
        self._signals = 0  # how many signals to stop have come
        self._last_signal = 0
        self._code: int = ExitCode.OK
        self._was_ready = False  # whether one has ever been ready

    def run(self) -> int:
        """Returns the exit code: here when all have ended, and in each of the processes when its work has."""
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._lifeline_r, self._lifeline_w = os.pipe()
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, self._on_signal)
        while True:
            now_s = time.monotonic()
            for process in self._all:
                if self._is_due(process, now_s):
                    lifeline = self._start(process, now_s)
                    if lifeline is not None:
                        return self._work(lifeline)
            if self._is_stopping and not any(process.pid for process in self._all):
                return self._code
            self._wait(now_s)
            self._reap()

    # --- Inside ---

    @property
    def _is_stopping(self) -> bool:
        return self._lifeline_w < 0

    def _is_due(self, process: Process, now_s: float) -> bool:
        is_first = process is self._all[0]
        return not (self._is_stopping or process.pid) and now_s >= process.due_s and (is_first or self._was_ready)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number in STOPS:
            self._signals += 1
            self._last_signal = number

    def _stop(self) -> None:
        if not self._is_stopping:
            os.close(self._lifeline_w)
            self._lifeline_w = -1

    def _start(self, process: Process, now_s: float) -> Lifeline | None:
        """Starts a process; returns its lifeline in the new one, and None here."""
        ready_r, ready_w = os.pipe()
        os.set_blocking(ready_r, False)
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal in between would be handled by the copy of this process's handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            os.close(ready_w)
            process.pid, process.ready, process.started_s = pid, ready_r, now_s
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in STOPS:
            signal.signal(number, lambda *_: os._exit(ExitCode.OK))  # until it works, it has nothing to end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        ours = [each.ready for each in self._all if each.ready >= 0]
        for fd in (self._wake_r, self._wake_w, self._lifeline_w, ready_r, *ours):
            os.close(fd)
        return Lifeline(process.number, self._lifeline_r, ready_w)

    def _wait(self, now_s: float) -> None:
        """Waits for a signal, a process that is ready, or the time to start one."""
        due_s = [each.due_s - now_s for each in self._all if not (each.pid or self._is_stopping)]
        waiting = [each for each in self._all if each.ready >= 0]
        timeout_s = max(0.0, min(due_s)) if due_s and self._was_ready else None
        readable, _, _ = select.select([self._wake_r, *(each.ready for each in waiting)], [], [], timeout_s)
        if self._wake_r in readable:
            os.read(self._wake_r, 4096)
        for each in waiting:
            if each.ready in readable:
                self._hear(each)
        if self._signals:
            self._stop()
        if self._signals > 1:
            self._kill()

    def _hear(self, process: Process) -> None:
        """Takes what a process has said: that it is ready, or nothing before its end."""
        with contextlib.suppress(BlockingIOError):
            self._was_ready = os.read(process.ready, 1) != b"" or self._was_ready
        os.close(process.ready)
        process.ready = -1

    def _reap(self) -> None:
        for process in self._all:
            if process.pid:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
                if pid:
                    self._ended(process, os.waitstatus_to_exitcode(status))

    def _ended(self, process: Process, code: int) -> None:
        """A process has ended: another is started, unless that would be in vain."""
        pid, process.pid = process.pid, 0
        if process.ready >= 0:
            self._hear(process)
        if self._is_stopping or code == ExitCode.USAGE or not self._was_ready:
            self._code = self._code or (code if code >= 0 else 128 - code)
            self._stop()
            return
        now_s = time.monotonic()
        is_failure = code != 0 and now_s - process.started_s < STEADY_S
        process.failures = process.failures + 1 if is_failure else 0
        pause_s = pause_after(process.failures, RESTART_S, RESTART_S_MAX)
        process.due_s = now_s + pause_s
        self._on_end(process.number, pid, code, pause_s)

    def _kill(self) -> None:
        for process in self._all:
            if process.pid:
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
        os._exit(128 + self._last_signal)
