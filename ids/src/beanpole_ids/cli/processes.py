"""``beanpole-ids serve`` with ``processes = N``: each process is a node of its own, and all have one UDP port.

The system gives each client's datagrams to one of them. One process keeps the others and starts another for each that
ends; if somebody else has its node, all end, as a service without further processes does. The keeper tells them to stop
in good order, and the kernel does so if it has died. So it makes no difference who gets the signal first, this process
or all of them at once, as from a terminal or from systemd; a second signal kills them.

The first process begins alone. If it ends before it is ready, so would the others, and what it says stands there once.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beanpole_ids import app
from beanpole_ids.errors import ExitCode
from beanpole_ids.rules.config import Config

PROCESS_RESTART_S_MAX = 30  # before the next start of a process that fails again and again; the first pause is 1
PROCESS_STEADY_S = 10  # after which the end of a process is no failure to start: another begins at once

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
RELOADS = (signal.SIGHUP, signal.SIGUSR1)
HANDLED = (*STOPS, *RELOADS, signal.SIGCHLD)
HOPELESS = (ExitCode.USAGE, ExitCode.NODE_TAKEN)
"""Exit codes after which another process would be in vain: then all end."""

PR_SET_PDEATHSIG = 1  # prctl(2): the signal that a process gets when its parent dies


@dataclass(slots=True)
class Own:
    """What a process that works knows of itself."""

    number: int
    """Which of the processes this is, from 1."""
    ready: int
    """Where it says that it is ready."""
    first: str
    """The addresses of the first process; empty in that."""

    def begin(self, addresses: list[str]) -> None:
        """Say that this process is ready, and where."""
        with contextlib.suppress(OSError):  # the keeper is gone
            os.write(self.ready, "\n".join(addresses).encode())
        os.close(self.ready)


@dataclass(slots=True)
class Process:
    """One of the processes: that which runs, or the one to come."""

    number: int
    pid: int = 0
    """0: none runs."""
    ready: int = -1
    """The end for reading of the pipe on which it says that it is ready; -1: it has said so, or none runs."""
    addresses: str = ""
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

    def __init__(
        self,
        count: int,
        work: Callable[[Own], int],
        on_ready: Callable[[list[str]], None],
        logger: Any,
    ) -> None:
        self._work = work
        self._on_ready = on_ready
        """Called once, when all are ready, with the addresses; an end before that ends all."""
        self._logger = logger
        self._all = [Process(number) for number in range(1, count + 1)]
        self._stop_count = 0
        """How many signals to stop have come."""
        self._last_signal = 0
        self._code: int = ExitCode.OK
        self._were_all_ready = False
        self._is_stopping = False

    def run(self) -> int:
        """Return the exit code: here when all have ended, and in each of the processes when its work has."""
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, self._on_signal)
        while True:
            now_s = time.monotonic()
            for process in self._all:
                if self._is_due(process, now_s):
                    own = self._start(process, now_s)
                    if own is not None:
                        return self._work(own)
            if self._is_stopping and not any(process.pid for process in self._all):
                return self._code
            self._wait(now_s)
            self._reap()

    # --- Inside ---

    @property
    def _first_was_ready(self) -> bool:
        return bool(self._all[0].addresses)

    def _is_due(self, process: Process, now_s: float) -> bool:
        is_next = process is self._all[0] or self._first_was_ready
        return is_next and not (self._is_stopping or process.pid) and now_s >= process.due_s

    def _on_signal(self, number: int, _frame: object) -> None:
        if number in STOPS:
            self._stop_count += 1
            self._last_signal = number
        elif number in RELOADS:
            for each in self._all:
                each.owed.append(number)

    def _stop(self) -> None:
        """Let all processes stop in good order."""
        if not self._is_stopping:
            self._is_stopping = True
            for process in self._all:
                if process.pid:
                    os.kill(process.pid, signal.SIGTERM)

    def _start(self, process: Process, now_s: float) -> Own | None:
        """Start a process; return what it knows of itself in the new one, and None here."""
        ready_r, ready_w = os.pipe()
        os.set_blocking(ready_r, False)
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal in between would be handled by the copy of this process's handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        keeper = os.getpid()
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            os.close(ready_w)
            process.pid, process.ready, process.started_s = pid, ready_r, now_s
            return None
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != keeper:
            os._exit(ExitCode.OK)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in RELOADS:
            signal.signal(number, signal.SIG_IGN)  # it gets them when it is ready
        for number in STOPS:
            signal.signal(number, lambda *_: os._exit(ExitCode.OK))  # until it works, it has nothing to end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        ours = [each.ready for each in self._all if each.ready >= 0]
        for fd in (self._wake_r, self._wake_w, ready_r, *ours):
            os.close(fd)
        return Own(process.number, ready_w, self._all[0].addresses)

    def _wait(self, now_s: float) -> None:
        """Wait for a signal, a process that is ready, or the time to start one."""
        due_s = [each.due_s - now_s for each in self._all if not (each.pid or self._is_stopping)]
        waiting = [each for each in self._all if each.ready >= 0]
        timeout_s = max(0.0, min(due_s)) if due_s and self._first_was_ready else None
        readable, _, _ = select.select([self._wake_r, *(each.ready for each in waiting)], [], [], timeout_s)
        if self._wake_r in readable:
            os.read(self._wake_r, 4096)
        for each in waiting:
            if each.ready in readable:
                self._hear(each)
        self._forward()
        if self._stop_count:
            self._stop()
        if self._stop_count > 1:
            self._kill()

    def _hear(self, process: Process) -> None:
        """Read what a process has said: that it is ready, or nothing before its end."""
        with contextlib.suppress(BlockingIOError):
            process.addresses = os.read(process.ready, select.PIPE_BUF).decode() or process.addresses
        os.close(process.ready)
        process.ready = -1
        if not self._were_all_ready and all(each.addresses for each in self._all):
            self._were_all_ready = True
            self._on_ready(list(dict.fromkeys(line for each in self._all for line in each.addresses.split("\n"))))

    def _forward(self) -> None:
        """Send signals on to those that are ready: before, a process would end by them."""
        for each in self._all:
            while each.pid and each.ready < 0 and each.owed:
                os.kill(each.pid, each.owed.pop(0))

    def _reap(self) -> None:
        for process in self._all:
            if process.pid:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
                if pid:
                    self._end(process, os.waitstatus_to_exitcode(status))

    def _end(self, process: Process, code: int) -> None:
        """Note the end of a process; plan another, unless that would be in vain."""
        pid, process.pid = process.pid, 0
        if process.ready >= 0:
            self._hear(process)
        if self._is_stopping or code in HOPELESS or not self._were_all_ready:
            self._code = self._code or (code if code >= 0 else 128 - code)
            self._stop()
            return
        now_s = time.monotonic()
        is_failure = code != 0 and now_s - process.started_s < PROCESS_STEADY_S
        process.failures = process.failures + 1 if is_failure else 0
        pause_s = min(2.0 ** (process.failures - 1), PROCESS_RESTART_S_MAX) if process.failures else 0.0
        process.due_s = now_s + pause_s
        how: dict[str, object] = {"code": code} if code >= 0 else {"signal": name_of(-code)}
        about = {"number": process.number, "pid": pid, **how, "in_s": pause_s}
        if code:
            self._logger.warning("process failed", **about)
        else:
            self._logger.info("process ended", **about)

    def _kill(self) -> None:
        """End all at once, after a second signal."""
        for process in self._all:
            if process.pid:
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
        os._exit(128 + self._last_signal)


def name_of(number: int) -> str:
    """Return what a signal is called; those for programs of one's own have no name each."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def serve_with_processes(path: Path, config: Config, logger: Any, ready: Callable[[list[str]], None]) -> int:
    """Serve until a signal stops it; return the exit code. `ready` is called when all processes answer.

    Raises StartError: it can't start; here, or in the process that can't.
    """
    app.check_unused(config)

    def work(own: Own) -> int:
        its = app.read(path, own.number - 1)
        port = int(own.first.partition("\n")[0].rpartition(":")[2] or 0)
        return int(app.serve(path, logger, own.begin, config=replace(its, shared_port=port)))

    return Processes(config.processes, work, ready, logger).run()
