"""Processes that run handlers: one for each slot that needs one, so that a crash takes nothing else with it.

The parent's side runs in the slot's thread and may block; only :meth:`Child.kill` is called from elsewhere. A child is
started with `spawn`: it imports the module of the handler, and shares no connection with the worker.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
import traceback
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from beanpole.errors import HandlerDiedError
from beanpole.worker.handler import Function
from beanpole.worker.task import Task
from beanpole.worker.thread import Ended, call

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

CHECK_S = 1.0
"""Seconds between checks that the child lives: a process that it left behind may hold its end of the pipe open."""

DEATH_TIMEOUT_S = 5.0
"""Seconds to wait for a killed process to end."""


class Child:
    """The process of a slot, and the pipe to it."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._lock = threading.Lock()
        self._killed = False

    def reset(self) -> None:
        """Resets the effect of :meth:`kill` before the next handler runs."""
        self._killed = False

    def run(self, function: Function, task: Task[object]) -> Ended:
        """Runs a handler in the process and waits for it; returns what it raised, or HandlerDiedError."""
        try:
            order = pickle.dumps((function, task))
        except Exception as error:  # noqa: BLE001 - pickle raises what it likes
            return error
        try:
            process, pipe = self._started()
            pipe.send_bytes(order)
            while not pipe.poll(CHECK_S) and process.exitcode is None:
                pass
            answer = pipe.recv_bytes() if pipe.poll() else b""
        except (EOFError, OSError):
            answer = b""
        if not answer:
            return HandlerDiedError(self._discard())
        try:
            ended: Ended = pickle.loads(answer)  # noqa: S301 - from a process of our own
        except Exception as error:  # noqa: BLE001 - see above
            return error
        return ended

    def kill(self) -> None:
        """Kills the process; what runs in it ends with HandlerDiedError. The next run starts another."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def _started(self) -> "tuple[SpawnProcess, Connection]":
        """The process and its pipe, started if needed. Raises EOFError after :meth:`kill`."""
        with self._lock:
            if self._killed:
                raise EOFError
            if self._process is None or self._pipe is None:
                context = multiprocessing.get_context("spawn")
                self._pipe, theirs = context.Pipe()
                self._process = context.Process(target=serve, args=(theirs,))
                self._process.start()
                theirs.close()
            return self._process, self._pipe

    def _discard(self) -> int | None:
        """Discards a process that has died, or is about to; returns its exit code."""
        with self._lock:
            process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if pipe is not None:
            pipe.close()
        if process is None:
            return None
        process.kill()
        process.join(DEATH_TIMEOUT_S)
        return process.exitcode


# --- In the child -----------------------------------------------------------------------------------------------------


def serve(pipe: Connection) -> None:
    """Runs handlers until the pipe closes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _do_nothing)  # sent to the whole group by a terminal; the worker ends this process
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _do_nothing(_number: int, _frame: object) -> None:
    """Handles a signal. Unlike SIG_IGN, a handler is not inherited by programs that the handler starts."""


def _die_with_parent() -> None:
    """Exits when the worker does; the server then gives the job to another worker."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in a child"
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _answer(order: bytes) -> bytes:
    """Calls a handler; returns what it raised, as bytes."""
    try:
        function, task = pickle.loads(order)  # noqa: S301 - from a process of our own
    except Exception as error:  # noqa: BLE001 - what an import raises
        ended: Ended = error
    else:
        ended = call(function, task)
    if ended is None:
        return pickle.dumps(None)
    note = "".join(traceback.format_exception(ended))
    try:
        ended.add_note(f"in process {os.getpid()}:\n{note}")
        data = pickle.dumps(ended)
        pickle.loads(data)  # noqa: S301 - from a process of our own
    except Exception:  # noqa: BLE001 - see above
        stand_in = RuntimeError(f"{type(ended).__qualname__}: {ended}")
        stand_in.add_note(f"in process {os.getpid()}:\n{note}")
        return pickle.dumps(stand_in)
    return data
