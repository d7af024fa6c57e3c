"""Programs of Beanpole in processes that are forked from one that has imported everything.

The tests in `ids` use it, too, for programs of their own.

Most of what a start costs is imports, and a fork does without them. :class:`Popen` and :func:`run` are those of
`subprocess`, but a command that is `python -m beanpole ...` is forked. Everything else is executed, and so is that
command where what happens before its first line matters: where the variables of Python, of the loader or of the locale
are not ours, with a limit on the address space, and in tests with the mark `start`, which are about the start itself.

Each process that runs tests has a fork server, which begins with the first command. It imports, and waits in its only
thread. It ends when the other end of its socket is closed, by whatever death. A request is the arguments, the
variables, the folder, limits, and the descriptors by SCM_RIGHTS. The server forks twice, and the process in between
ends at once: so the program becomes a child of the process that runs tests, which is the subreaper for that moment,
and which signals it and has its exit status as of any child.
"""

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from ctypes import CDLL
from typing import Any, NamedTuple

PROGRAMS = ("beanpole", "tests.e2e.console.patient")
"""What is forked: the modules behind `-m`. The function `prepare` of one is called before anything else is imported."""

PACKAGE = "beanpole"
"""What is imported whole."""

NOT_IMPORTED = (
    "beanpole.__main__",
    "beanpole.conformance",
    "beanpole.django",
    "beanpole.pytest_plugin",
    "beanpole.testing",
)
"""How the names of modules begin that programs seldom need, or that tests look at."""

BEFORE_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "TZ", "GLIBC_")
"""How variables begin that matter before the first line of a program."""

AFTER_THE_START = ("PYTHONIOENCODING", "PYTHONUNBUFFERED")
"""Those that a forked program minds nevertheless."""

OPTIONS = {
    "bufsize",
    "cwd",
    "encoding",
    "env",
    "errors",
    "pass_fds",
    "start_new_session",
    "stderr",
    "stdin",
    "stdout",
    "text",
}
"""Options of `subprocess.Popen` that hold for a forked program, too."""

SIZE = struct.Struct("=I")
DESCRIPTORS_MAX = 100
PR_SET_CHILD_SUBREAPER = 36

Command = Sequence[str | os.PathLike[str]]


class Asked(NamedTuple):
    """What a command runs."""

    module: str
    arguments: list[str]
    warnings_are_errors: bool


def asked(command: Command) -> Asked | None:
    """Return what a command runs; None: it can't be forked."""
    words = [os.fspath(each) for each in command]
    are_errors = words[1:3] == ["-W", "error"]
    if are_errors:
        del words[1:3]
    if words[:2] == [sys.executable, "-m"] and words[2] in PROGRAMS:
        return Asked(words[2], words[3:], are_errors)
    return None


def before_the_start(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables that matter before the first line of a program."""
    found = os.environ if env is None else env
    return {k: v for k, v in found.items() if k.startswith(BEFORE_THE_START) and k not in AFTER_THE_START}


# --- In the process that runs tests -----------------------------------------------------------------------------------


class Popen(subprocess.Popen[Any]):
    """A process, forked if it can be; `limits` are limits of resources by number."""

    executes = False
    """Whether all commands are executed, as in tests that are about the start."""

    def __init__(self, command: Command, *, limits: Mapping[int, int] | None = None, **options: Any) -> None:  # noqa: ANN401
        self._limits = limits or {}
        self._options = options
        self._asked = None if self.executes or options.keys() - OPTIONS else asked(command)
        if resource.RLIMIT_AS in self._limits or before_the_start(options.get("env")) != before_the_start(None):
            self._asked = None
        if self._limits and not self._asked:
            options["preexec_fn"] = lambda: set_limits(self._limits)
        super().__init__(command, **options)

    def _execute_child(self, command: Any, *others: Any) -> None:  # noqa: ANN401 - what Popen gives itself
        """Do what that of `subprocess` does, by a fork server."""
        if self._asked is None:
            super()._execute_child(command, *others)  # type: ignore[misc]
            return
        pipes = others[9:15]  # ours and theirs of standard input, output and error
        theirs = (pipes[0], pipes[3], pipes[5])
        standard = [fd if each == -1 else each for fd, each in enumerate(theirs)]
        passed = list(self._options.get("pass_fds", ()))
        env = self._options.get("env")
        request = {
            **self._asked._asdict(),
            "env": dict(os.environ if env is None else env),
            "cwd": os.path.realpath(self._options.get("cwd") or "."),
            "limits": list(self._limits.items()),
            "has_session": self._options.get("start_new_session", False),
            "descriptors": [0, 1, 2, *passed],
        }
        with one_at_a_time:
            self.pid = server_of(self._asked.module).fork(request, [*standard, *passed])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(
    command: Command,
    *,
    check: bool,
    capture_output: bool = False,
    input: Any = None,  # noqa: A002, ANN401 - as in subprocess
    timeout: float | None = None,
    **options: Any,  # noqa: ANN401 - see above
) -> "subprocess.CompletedProcess[Any]":
    """Run a command to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Popen(command, **options) as process:
        try:
            out, error = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, error)
    if check:
        done.check_returncode()
    return done


class ForkServer:
    """The fork server of one program."""

    def __init__(self, module: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.forks", module, str(theirs.fileno())]
            self._popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        self._owner = os.getpid()
        atexit.register(self.close)

    def fork(self, request: object, descriptors: list[int]) -> int:
        """Return the process id of a new program, which is our child."""
        data = json.dumps(request).encode()
        set_flag = CDLL(None).prctl
        set_flag(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [SIZE.pack(len(data))], descriptors)
            self._socket.sendall(data)
            answer = read_all(self._socket, SIZE.size)
        finally:
            set_flag(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return int(SIZE.unpack(answer)[0])

    def close(self) -> None:
        if os.getpid() == self._owner:
            self._socket.close()
            self._popen.wait()


servers: dict[str, ForkServer] = {}
one_at_a_time = threading.Lock()
"""Held while a fork server is asked: tests start processes from threads, too."""


def server_of(module: str) -> ForkServer:
    """Return the fork server of a program, which begins when it is first needed."""
    if module not in servers:
        servers[module] = ForkServer(module)
    return servers[module]


def read_all(connection: socket.socket, size: int) -> bytes:
    """Receive so many bytes."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError("the fork server has ended, or the process that runs tests")
        data += piece
    return data


def set_limits(limits: Mapping[int, int]) -> None:
    for which, value in limits.items():
        resource.setrlimit(which, (value, value))


# --- In the fork server -----------------------------------------------------------------------------------------------


def main() -> None:
    """Fork whenever that is asked for; run the program in what was forked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: the process that runs tests ends us
    connection = socket.socket(fileno=int(sys.argv[2]))
    program = importlib.import_module(sys.argv[1])
    if hasattr(program, "prepare"):
        program.prepare()
    preload()
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1
    request = serve(connection)
    if request is not None:
        end(run_program(request["module"]))


def run_program(module: str) -> int:
    """Run a program; return its exit code."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 - as Python does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(code: int) -> None:
    """End this process as Python does, but without freeing all that was imported, which costs more than a fork."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for each in (sys.stdout, sys.stderr):
        try:
            each.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code)


def preload() -> None:
    """Import what programs may need; nothing of it starts a thread or opens a file."""
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        if not found.name.startswith(NOT_IMPORTED):
            importlib.import_module(found.name)


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork whenever that is asked for; return in each program, with what was asked, and at the end, with None."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, SIZE.size, DESCRIPTORS_MAX)
        if not data:
            return None
        request: dict[str, Any] = json.loads(read_all(connection, *SIZE.unpack(data)))
        read, write = os.pipe()
        between = os.fork()
        if between == 0:
            parent = os.getpid()
            if pid := os.fork():
                os.write(write, SIZE.pack(pid))
                os._exit(0)
            connection.detach()
            become(request, descriptors)
            while os.getppid() == parent:  # it ends right now
                time.sleep(0.0001)
            return request
        os.waitpid(between, 0)
        connection.sendall(os.read(read, SIZE.size))
        for each in (read, write, *descriptors):
            os.close(each)


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Make of this process what it would be if the program had just been executed."""
    if request["has_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = request["descriptors"]
    beyond = max(*wanted, *descriptors) + 1
    for at, each in enumerate(descriptors):
        os.dup2(each, beyond + at)
    first = 0
    for at, each in sorted(enumerate(wanted), key=lambda pair: int(pair[1])):
        if first < each:  # of nothing, CPython 3.11 closes everything
            os.closerange(first, each)
        os.dup2(beyond + at, each)
        first = each + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    set_limits(dict(request["limits"]))
    if request["warnings_are_errors"]:
        sys.warnoptions.append("error")
        warnings.simplefilter("error")
    sys.path[0] = request["cwd"]
    sys.argv = ["-m", *request["arguments"]]  # runpy replaces the first
    sys.stdin = sys.__stdin__ = stream(0, sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = stream(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = stream(2, sys.stderr)  # type: ignore[misc]


def stream(fd: int, old: Any) -> io.TextIOWrapper:  # noqa: ANN401 - as sys declares it
    """Return a standard stream as Python makes it when it starts."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    if encoding and not errors:
        errors = "strict"
    raw = io.FileIO(fd, "r" if fd == 0 else "w", closefd=False)
    raw.name = old.name
    is_unbuffered = fd != 0 and bool(os.environ.get("PYTHONUNBUFFERED"))
    buffer: Any = raw if is_unbuffered else io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        encoding or old.encoding,
        old.errors if fd == 2 else errors or old.errors,
        "\n",
        line_buffering=fd == 2 or raw.isatty(),
        write_through=is_unbuffered,
    )


if __name__ == "__main__":
    main()
