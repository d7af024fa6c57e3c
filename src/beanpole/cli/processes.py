"""Several processes that do the same, and one that looks after them: of a worker, and of the ID service.

The one that looks after them starts another for each that ends; that of a worker imports nothing of the user's. They
share a pipe, the lifeline, of which only this process has the end for writing: when that closes, because it stops or
has died, they stop in good order. So it makes no difference who gets the signal first, this process or all of them at
once, as from a terminal or from systemd; a second signal kills them.

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
from dataclasses import dataclass, field

from beanpole.cli import limits
from beanpole.errors import ExitCode
from beanpole.worker import events
from beanpole.worker.events import Event
from beanpole.worker.log import Log

STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Manner:
    """How processes are looked after; the defaults are a worker's."""

    stops: tuple[signal.Signals, ...] = STOPS
    """The signals that stop them."""
    forwarded: tuple[signal.Signals, ...] = ()
    """The signals that each process gets, when it is ready."""
    hopeless: tuple[int, ...] = (ExitCode.USAGE,)
    """Exit codes after which another process would be in vain: then all end."""
    on_ready: Callable[[list[str]], None] | None = None
    """Called once, when all are ready, with what each has said; an end before that ends all. None: the first one's
    readiness is enough."""
    ended: Event = events.PROCESS_ENDED
    failed: Event = events.PROCESS_FAILED


@dataclass(slots=True)
class Lifeline:
    """What a process that works knows of the one that has started it."""

    number: int
    """Which of the processes this is, from 1."""
    parent: int
    """The end for reading of the lifeline."""
    ready: int
    """Where it says that it is ready."""

    first: str = ""
    """What the first process has said when it was ready; empty in the first one."""

    def begin(self, stop: Callable[[], None], said: str = ".") -> None:
        """Says that this process is ready; calls `stop` in a thread when the parent stops, or is gone."""

        def watch() -> None:
            os.read(self.parent, 1)
            stop()

        with contextlib.suppress(OSError):  # the parent is gone: that is what the thread finds
            os.write(self.ready, said.encode())
        os.close(self.ready)
        threading.Thread(target=watch, name="beanpole-lifeline", daemon=True).start()


@dataclass(slots=True)
class Process:
    """One of the processes: that which runs, or the one to come."""

    number: int
    pid: int = 0
    """0: none runs."""
    ready: int = -1
    """The end for reading of the pipe on which it says that it is ready; -1: it has said so, or none runs."""
    said: str = ""
    """What it has said then, or the one before it; empty: none was ever ready."""
    owed: list[int] = field(default_factory=list)
    """Signals that it gets when it is ready."""
    started_s: float = 0.0
    due_s: float = 0.0
    """When the next one is started."""
    failures: int = 0
    """How often in a row it has ended soon, and not with 0."""


class Processes:
    """Starts processes that each call `work`, and another for each that ends, until a signal stops them."""

    def __init__(self, count: int, work: Callable[[Lifeline], int], log: Log, manner: Manner = Manner()) -> None:
        self._work = work
        self._log = log
        self._manner = manner
        self._handled = (*manner.stops, *manner.forwarded, signal.SIGCHLD)
        self._all = [Process(number) for number in range(1, count + 1)]
        self._signals = 0
        """How many signals to stop have come."""
        self._last_signal = 0
        self._code: int = ExitCode.OK
        self._was_ready = False
        """Whether one has ever been ready."""
        self._were_all_ready = False

    def run(self) -> int:
        """Returns the exit code: here when all have ended, and in each of the processes when its work has."""
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._lifeline_r, self._lifeline_w = os.pipe()
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in self._handled:
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
        if number in self._manner.stops:
            self._signals += 1
            self._last_signal = number
        elif number in self._manner.forwarded:
            for each in self._all:
                each.owed.append(number)

    def _stop(self) -> None:
        """Lets all processes stop in good order."""
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
        signal.pthread_sigmask(signal.SIG_BLOCK, self._handled)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._handled)
            os.close(ready_w)
            process.pid, process.ready, process.started_s = pid, ready_r, now_s
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in self._manner.forwarded:
            signal.signal(number, signal.SIG_IGN)  # it gets them when it is ready
        for number in self._manner.stops:
            signal.signal(number, lambda *_: os._exit(ExitCode.OK))  # until it works, it has nothing to end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._handled)
        ours = [each.ready for each in self._all if each.ready >= 0]
        for fd in (self._wake_r, self._wake_w, self._lifeline_w, ready_r, *ours):
            os.close(fd)
        return Lifeline(process.number, self._lifeline_r, ready_w, self._all[0].said)

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
        self._forward()
        if self._signals:
            self._stop()
        if self._signals > 1:
            self._kill()

    def _hear(self, process: Process) -> None:
        """Takes what a process has said: that it is ready, or nothing before its end."""
        with contextlib.suppress(BlockingIOError):
            process.said = os.read(process.ready, select.PIPE_BUF).decode() or process.said
        os.close(process.ready)
        process.ready = -1
        self._was_ready = self._was_ready or bool(process.said)
        if self._were_all_ready or not all(each.said for each in self._all):
            return
        self._were_all_ready = True
        if self._manner.on_ready:
            self._manner.on_ready([each.said for each in self._all])

    def _forward(self) -> None:
        """Sends signals on to those that are ready: before, a process would end by them."""
        for each in self._all:
            while each.pid and each.ready < 0 and each.owed:
                os.kill(each.pid, each.owed.pop(0))

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
        has_begun = self._were_all_ready if self._manner.on_ready else self._was_ready
        if self._is_stopping or code in self._manner.hopeless or not has_begun:
            self._code = self._code or (code if code >= 0 else 128 - code)
            self._stop()
            return
        now_s = time.monotonic()
        is_failure = code != 0 and now_s - process.started_s < limits.WORKER_STEADY_S
        process.failures = process.failures + 1 if is_failure else 0
        pause_s = min(2.0 ** (process.failures - 1), limits.WORKER_RESTART_S_MAX) if process.failures else 0.0
        process.due_s = now_s + pause_s
        how: dict[str, object] = {"code": code} if code >= 0 else {"signal": name_of(-code)}
        event = self._manner.failed if code else self._manner.ended
        self._log.write(event, number=process.number, pid=pid, **how, in_s=pause_s)

    def _kill(self) -> None:
        """A second signal: ends all at once."""
        for process in self._all:
            if process.pid:
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
        os._exit(128 + self._last_signal)


def name_of(number: int) -> str:
    """What a signal is called; those for programs of one's own have no name each."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
