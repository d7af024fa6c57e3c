"""The conformance kit: plays each script against a fresh server of a program, and gathers the results.

Each script gets a process of its own, which is empty and on a port of its own. A script is skipped, with the reason, if
the program can't be set up as it needs, and if the server does not list an extension that it uses. Without extensions
the measure is beanstalkd, with them it is docs/protocol.md in full.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from beanpole.client import Client
from beanpole.conformance.run import Problem, Run, ServerTarget
from beanpole.conformance.script import SCRIPTS, Script, read_script
from beanpole.errors import BeanpoleError
from beanpole.limits import BODY_BYTES_MAX_DEFAULT
from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES
from beanpole.protocol.rules import RULES

HOST = "127.0.0.1"
PORT = "{port}"
STOP_S = 5.0  # that a server may take to end before it is killed
POLL_S = 0.005
PORT_TRIES = 3  # a free port may be taken by another program before the server binds it
SETTLE_S = 0.02  # that a server on this machine is given to send what it must not send, or to notice a FIN
SCRIPT_SECONDS_MAX = 6.0  # that may pass in a script that is played against a server
AT_ONCE = 4  # scripts that are played at a time: most of their time is waiting, but for the starts of servers
TRIES = 3  # of a script in which time passes, until it goes as written: a machine may stall
BEANSTALKD_TRIES = 10  # of one that beanstalkd, by a mistake of its own, fails in about one of four runs

DECIMALS = re.compile(rb"(?:put|release|pause-tube) [^=]*\d\.\d{1,3}(?: .*)?")
"""A command of beanstalkd's with a fraction of a second."""

OPTIONS = {verb: {KIND_NAMES[kind] for kind in options} for verb, _, options in EXTENSIONS}
OF_US = "extension", "fractions"
"""What a script is about that says, with one of these words, that it is not for beanstalkd."""


# --- servers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    pid: int
    port: int
    patience_s: float

    def connect(self) -> socket.socket:
        """Return a connection that is known to be accepted: the server has answered an empty line. Raises OSError."""
        connection = socket.create_connection((HOST, self.port), self.patience_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"\r\n")
        reply = b""
        while not reply.endswith(b"\r\n"):
            piece = connection.recv(100)
            if not piece:
                raise ConnectionResetError("the server closes a connection that sends an empty line")
            reply += piece
        return connection

    def drain(self) -> None:
        """Put the server into drain mode, and wait until it says so itself; one that never does fails the script."""
        os.kill(self.pid, signal.SIGUSR1)
        with contextlib.suppress(BeanpoleError), Client(f"{HOST}:{self.port}", patience=0) as client:
            for _ in range(int(self.patience_s / POLL_S)):
                if client.stats().get("draining") == "true":
                    return
                time.sleep(POLL_S)


@dataclass
class Program:
    """How a server is started."""

    words: tuple[str, ...]
    """The command line. In its words ``{port}`` stands for the port, and the names of settings of a script for them."""

    patience_s: float

    def takes(self, setting: str) -> bool:
        """Whether the command line has a place for a setting: ``max-job-size`` or ``tubes-max``."""
        return any(f"{{{setting}}}" in word for word in self.words)

    @contextlib.contextmanager
    def serve(self, script: Script) -> Iterator[Server]:
        """Start a server for a script, and stop it at the exit. Raises OSError: it does not start, or not answer."""
        with tempfile.TemporaryFile() as said:
            process, server = self.start(script, said)
            try:
                yield server
            finally:
                stop(process)

    def start(self, script: Script, said: IO[bytes]) -> "tuple[subprocess.Popen[bytes], Server]":
        """Return a process that answers. Raises OSError."""
        for _ in range(PORT_TRIES):
            port = free_port()
            values = {PORT: port, "{max-job-size}": script.body_bytes_max, "{tubes-max}": script.tubes_max}
            words = list(self.words)
            for name, value in values.items():
                words = [word.replace(name, str(value)) for word in words]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)  # noqa: S603 - it is the user's own
            server = Server(process.pid, port, self.patience_s)
            if answers(process, server):
                return process, server
            code = process.poll()
            stop(process)
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
        how = "does not answer" if code is None else f"ended with exit code {code}"
        raise ConnectionError(f"{self.words[0]} {how}{last and ': ' + last}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers(process: "subprocess.Popen[bytes]", server: Server) -> bool:
    """Wait until a server answers; false if it ends, or takes too long.

    The connection that asks is waited for until the server has closed it, too: else statistics would still count it.
    """
    for _ in range(int(server.patience_s / POLL_S)):
        if process.poll() is not None:
            return False
        try:
            with server.connect() as asking:
                asking.shutdown(socket.SHUT_WR)
                while asking.recv(100):
                    pass
        except OSError:
            time.sleep(POLL_S)
        else:
            return process.poll() is None
    return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server, which is killed if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# --- scripts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What became of a script: it passed, or there is a problem, or a reason why it was not played."""

    script: Script
    problem: Problem | None = None
    skipped: str = ""

    @property
    def clause(self) -> str:
        return self.script.settings.get("clause", "")


def features_of(script: Script) -> frozenset[str]:
    """Return the names in list-extensions of all that a script uses."""
    lines = b"".join(step.data for step in script.steps if step.kind == "send").split(b"\r\n")
    return frozenset(found for line in lines for found in features_of_line(line, script))


def features_of_line(line: bytes, script: Script) -> Iterator[str]:
    """Return the names in list-extensions of what a line uses, be it a command or a rule."""
    verb, _, rest = line.partition(b" ")
    if script.settings.get("not beanstalkd") == "fractions" or DECIMALS.fullmatch(line):
        yield "fractions"
    if verb in OPTIONS:
        yield verb.decode()
        options = [option for option, equals, _ in (word.partition(b"=") for word in rest.split(b" ")) if equals]
        yield from (f"{verb.decode()}.{option.decode()}" for option in options if option in OPTIONS[verb])
    if line.startswith(b"reserve-many 0 "):
        yield "reserve-many.0"
    for rule in line.split(b"\n"):
        name, colon, _ = rule.decode(errors="replace").partition(":")
        if colon and name in RULES:
            yield f"rule.{name}"


def skipped_for(script: Script, program: Program, listed: frozenset[str] | None) -> str:
    """Return why a script is not played against servers that list these extensions; None: they are not asked for."""
    for setting in ("max-job-size", "tubes-max"):
        if setting in script.settings and not program.takes(setting):
            return f"wants a server with {setting} {script.settings[setting]}: {{{setting}}} is not in the command"
    if reason := script.settings.get("only engine", ""):
        return f"the clock must stand still: {reason}"
    if script.seconds > SCRIPT_SECONDS_MAX:
        return f"takes {script.seconds} s"
    if listed is None:
        for setting in ("not beanstalkd", "beanstalkd 1.13 only"):
            if reason := script.settings.get(setting, ""):
                return f"not all servers do so: {reason}"
        return ""
    missing = sorted(features_of(script) - listed)
    return f"not in list-extensions: {', '.join(missing)}" if missing else ""


def body_bytes_max_of(client: Client[str]) -> int:
    """Ask a server how large a body may be; if it does not say, as large as beanstalkd's."""
    try:
        return int(client.stats().get("max-job-size", BODY_BYTES_MAX_DEFAULT))
    except (BeanpoleError, ValueError):
        return BODY_BYTES_MAX_DEFAULT


def examine(program: Program, *, extensions: bool, patience_s: float) -> list[Result]:
    """Play all scripts; those of extensions only if these are asked for. Raises OSError: the server does not start."""
    listed: frozenset[str] | None = None
    with program.serve(Script(Path(), [], {})) as server, Client(f"{HOST}:{server.port}", patience=0) as client:
        server_bytes_max = body_bytes_max_of(client)
        if extensions:
            listed = client.features()
    results, chosen = [], []
    for path in SCRIPTS:
        script = read_script(path, server_bytes_max)
        if listed is None and (features_of(script) or script.settings.get("not beanstalkd") in OF_US):
            continue
        if reason := skipped_for(script, program, listed):
            results.append(Result(script, skipped=reason))
        else:
            chosen.append(script)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(play, program, script, patience_s, like_beanstalkd=listed is None) for script in chosen]
        results += [run.result() for run in runs]
    return sorted(results, key=lambda result: result.script.path.name)


def play(program: Program, script: Script, patience_s: float, *, like_beanstalkd: bool) -> Result:
    """Play a script, again if it fails and time passes in it, which a machine that stalls gets wrong.

    With `like_beanstalkd` whatever a release of it does is right.
    """
    tries = TRIES if script.seconds else 1
    if like_beanstalkd and "beanstalkd retried" in script.settings:
        tries = BEANSTALKD_TRIES
    for _ in range(tries):
        problem = play_once(program, script, patience_s, may_quote=like_beanstalkd)
        if problem is None:
            break
    return Result(script, problem)


def play_once(program: Program, script: Script, patience_s: float, *, may_quote: bool) -> Problem | None:
    try:
        with (
            program.serve(script) as server,
            contextlib.closing(ServerTarget(server.connect, server.drain, patience_s, SETTLE_S)) as target,
        ):
            return Run(script, target, may_quote=may_quote).outcome()
    except OSError as error:
        return Problem(script, script.steps[0].line, f"the connection broke: {error}")
