"""Where the handlers of one slot run: on the loop, in its thread, or in its process.

A slot that needs a process has one of its own, so that a crash takes nothing else with it. It is started with `spawn`:
it imports the module of the handler, and shares no connection with the worker.
"""

import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, cast

from beanpole.errors import HandlerDiedError
from beanpole.worker.calls import Ended, HandlerThread, around, call, call_async
from beanpole.worker.handler import Function, Handler, Place, Task, is_async, tasks_of

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

CHECK_S = 1.0
"""Seconds between checks that the child lives: a process that it left behind may hold its end of the pipe open."""

DEATH_TIMEOUT_S = 5.0  # seconds to wait for a killed process to end


@dataclass(frozen=True, slots=True)
class Running:
    """A handler that runs."""

    done: "asyncio.Future[Ended]"  # done when the handler has ended; its result is what the handler raised, or None
    stops: Sequence[Callable[[], object]]
    """What stops the handler, the gentlest first. In a thread it can't be stopped: it is given time to look."""


class Executor:
    """The thread and the process of a slot, started when they are first needed."""

    def __init__(self, name: str, middleware: Sequence[Function]) -> None:
        self._name = name
        self._middleware = middleware
        self._thread: HandlerThread | None = None
        self._hook_thread: HandlerThread | None = None
        self._child = Child()

    def start(self, handler: Handler, tasks: Sequence[Task[Any]]) -> Running:
        """Starts a handler, and the middleware around it."""
        function = around(self._middleware, handler)
        task = tasks[0] if handler.batch is None else list(tasks)
        if handler.place is Place.LOOP:
            running = asyncio.ensure_future(call_async(function, task))
            return Running(running, [running.cancel])
        if handler.place is Place.THREAD:
            done = self._own_thread().submit(partial(call, function, task))
            return Running(done, [_look] * handler.cancellable)
        self._child.reset()
        done = self._own_thread().submit(partial(self._child.run, function, task))
        return Running(done, [self._child.interrupt] * handler.cancellable + [self._child.kill])

    def warm(self, handlers: Sequence[Handler]) -> "asyncio.Future[Ended] | None":
        """Starts the process, if handlers need one and there is none; done when it has imported what it runs.

        What goes wrong there is found by the first job.
        """
        if not handlers or self._child.is_there:
            return None
        self._child.reset()
        functions = [around(self._middleware, each) for each in handlers]
        return self._own_thread().submit(partial(self._child.run, imported, functions))

    def _own_thread(self) -> HandlerThread:
        if self._thread is None:
            self._thread = HandlerThread(self._name)
        return self._thread

    async def call_hook(self, hook: Function, *args: object) -> Ended:
        """Calls a hook and waits for it, in a thread of its own: a handler may hang in the other one."""
        if is_async(hook):
            return await call_async(hook, *args)
        if self._hook_thread is None:
            self._hook_thread = HandlerThread(f"{self._name}-hooks")
        return await self._hook_thread.submit(partial(call, hook, *args))

    def close(self) -> None:
        """Stops the threads and kills the process, without waiting for them."""
        self._child.kill()
        for thread in (self._thread, self._hook_thread):
            if thread is not None:
                thread.end()


def _look() -> None:
    """Stops nothing: the thread has ``task.cancelled`` to look at."""


class Child:
    """The process of a slot, and the pipe to it: used by the slot's thread, which may block, but for :meth:`kill`."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._interrupts: Connection | None = None
        self._lock = threading.Lock()
        self._killed = False

    @property
    def is_there(self) -> bool:
        return self._process is not None

    def reset(self) -> None:
        self._killed = False

    def run(self, function: Function, given: Any) -> Ended:  # noqa: ANN401 - what the function is called with
        """Runs a handler in the process and waits for it; returns what it raised, or HandlerDiedError."""
        try:
            order = pickle.dumps((function, given))
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
            ended, marks = pickle.loads(answer)  # noqa: S301 - from a process of our own
        except Exception as error:  # noqa: BLE001 - see above
            return error
        for task, mark in zip(marks and tasks_of(given), marks, strict=True):
            task.mark = mark
        return cast("Ended", ended)

    def kill(self) -> None:
        """Kills the process; what runs in it ends with HandlerDiedError. The next run starts another."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def interrupt(self) -> None:
        """Lets what runs in the process end with SystemExit, by SIGTERM, if it does not hold that up."""
        with self._lock, contextlib.suppress(OSError):
            self._killed |= self._process is None
            if self._process is not None and self._interrupts is not None:
                self._interrupts.send_bytes(b"1")
                self._process.terminate()

    def _started(self) -> "tuple[SpawnProcess, Connection]":
        """The process and its pipe, started if needed. Raises EOFError after :meth:`kill`."""
        with self._lock:
            if self._killed:
                raise EOFError
            if self._process is None or self._pipe is None:
                context = multiprocessing.get_context("spawn")
                self._pipe, theirs = context.Pipe()
                interrupts, self._interrupts = context.Pipe(duplex=False)
                self._process = context.Process(target=serve, args=(theirs, interrupts))
                self._process.start()
                theirs.close()
                interrupts.close()
            return self._process, self._pipe

    def _discard(self) -> int | None:
        """Discards a process that has died, or is about to; returns its exit code."""
        with self._lock:
            process, pipes = self._process, (self._pipe, self._interrupts)
            self._process = self._pipe = self._interrupts = None
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        if process is None:
            return None
        process.kill()
        process.join(DEATH_TIMEOUT_S)
        return process.exitcode


# --- In the child -----------------------------------------------------------------------------------------------------


def serve(pipe: Connection, interrupts: Connection) -> None:
    """Runs handlers until the pipe closes."""
    runs = False

    def interrupt(_number: int, _frame: object) -> None:
        """Ends a handler if the worker has said so: a supervisor may send SIGTERM to all processes of a service."""
        if runs and interrupts.poll():
            raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGINT, _do_nothing)  # sent to the whole group by a terminal; the worker ends this process
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            order = pipe.recv_bytes()
            while interrupts.poll():  # of the handler before
                interrupts.recv_bytes()
            try:
                runs = True
                answer = _answer(order)
                runs = False
            except SystemExit as error:  # it came beside the handler
                runs = False
                answer = pickle.dumps((error, []))
            pipe.send_bytes(answer)


def _do_nothing(_number: int, _frame: object) -> None:
    """Handles a signal. Unlike SIG_IGN, a handler is not inherited by programs that the handler starts."""


def _die_with_parent() -> None:
    """Exits when the worker does; the server then gives the job to another worker."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in a child"
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def imported(_functions: object) -> None:
    """Does nothing: who is called so has imported the functions."""


def _answer(order: bytes) -> bytes:
    """Calls a handler; returns what it raised, and what it has said of the tasks that it has marked, as bytes."""
    tasks: list[Task[Any]] = []
    try:
        function, given = pickle.loads(order)  # noqa: S301 - from a process of our own
    except Exception as error:  # noqa: BLE001 - what an import raises
        ended: Ended = error
    else:
        ended = call(function, given)
        tasks = [] if function is imported else tasks_of(given)
    return pickle.dumps((_portable(ended), [task.mark and (_portable(task.mark[0]),) for task in tasks]))


def _portable(ended: Ended) -> Ended:
    """What the worker's process can read: the error with its traceback as a note, or one that stands for it."""
    if ended is None:
        return None
    note = "".join(traceback.format_exception(ended))
    try:
        ended.add_note(f"in process {os.getpid()}:\n{note}")
        pickle.loads(pickle.dumps(ended))  # noqa: S301 - from a process of our own
    except Exception:  # noqa: BLE001 - see above
        stand_in = RuntimeError(f"{type(ended).__qualname__}: {ended}")
        stand_in.add_note(f"in process {os.getpid()}:\n{note}")
        return stand_in
    return ended
