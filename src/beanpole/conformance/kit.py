"""The conformance kit: plays each script against a fresh server of a program, and gathers the results.

A script is skipped, with the reason, if the program can't be set up as it needs, and if the server does not list an
extension that it uses. Without extensions the measure is beanstalkd, with them it is docs/protocol.md in full.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from beanpole.client import Client
from beanpole.conformance.program import HOST, Server
from beanpole.conformance.run import Problem, Run
from beanpole.conformance.script import SCRIPTS, Script, read_script
from beanpole.conformance.target import ServerTarget
from beanpole.errors import BeanpoleError
from beanpole.limits import BODY_BYTES_MAX_DEFAULT
from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES
from beanpole.protocol.rules import RULES

SETTLE_S = 0.02
"""Seconds that a server on this machine is given to send what it must not send, or to notice a FIN."""

SCRIPT_SECONDS_MAX = 6.0
"""Seconds that may pass in a script that is played against a server."""

AT_ONCE = 4
"""Scripts that are played at a time: most of their time is waiting, but for the starts of servers."""

TRIES = 3
"""How often a script in which time passes is played until it goes as written: a machine may stall."""

BEANSTALKD_TRIES = 10
"""How often one is played that beanstalkd, by a mistake of its own, fails in about one of four runs."""

DECIMALS = re.compile(rb"(?:put|release|pause-tube) [^=]*\d\.\d{1,3}(?: .*)?")
"""A command of beanstalkd's with a fraction of a second."""

OPTIONS = {verb: {KIND_NAMES[kind] for kind in options} for verb, _, options in EXTENSIONS}
OF_US = "extension", "fractions"
"""What a script is about that says, with one of these words, that it is not for beanstalkd."""


class Examined(Protocol):
    """What starts servers: a program."""

    def takes(self, setting: str) -> bool:
        """Whether a server can be given a setting of a script."""

    def serve(self, script: Script) -> AbstractContextManager[Server]:
        """Start a server for a script. Raises OSError."""


@dataclass(frozen=True)
class Result:
    """What became of a script: it passed, or there is a problem, or a reason why it was not played."""

    script: Script
    problem: Problem | None = None
    skipped: str = ""

    @property
    def clause(self) -> str:
        """The heading of docs/protocol.md."""
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
        for word in rest.split(b" "):
            option, equals, _ = word.partition(b"=")
            if equals and option in OPTIONS[verb]:
                yield f"{verb.decode()}.{option.decode()}"
    for rule in line.split(b"\n"):
        name, colon, _ = rule.decode(errors="replace").partition(":")
        if colon and name in RULES:
            yield f"rule.{name}"


def skipped_for(script: Script, program: Examined, listed: frozenset[str] | None) -> str:
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


def examine(program: Examined, *, extensions: bool, patience_s: float) -> list[Result]:
    """Play all scripts; those of extensions only if these are asked for.

    Raises:
        OSError: the first server does not start.
    """
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


def play(program: Examined, script: Script, patience_s: float, *, like_beanstalkd: bool) -> Result:
    """Play a script, again if it fails and time passes in it, which a machine that stalls gets wrong.

    With `like_beanstalkd` whatever a release of it does is right.
    """
    tries = TRIES if script.seconds else 1
    if like_beanstalkd and "beanstalkd retried" in script.settings:
        tries = BEANSTALKD_TRIES
    problem = None
    for _ in range(tries):
        problem = play_once(program, script, patience_s, may_quote=like_beanstalkd)
        if problem is None:
            break
    return Result(script, problem)


def play_once(program: Examined, script: Script, patience_s: float, *, may_quote: bool) -> Problem | None:
    """Play a script against a server of its own."""
    try:
        with program.serve(script) as server:
            target = ServerTarget(server.connect, server.drain, patience_s, SETTLE_S)
            run = Run(script, target, may_quote=may_quote)
            try:
                return run.outcome()
            finally:
                target.close()
    except OSError as error:
        return Problem(script, script.steps[0].line, f"the connection broke: {error}")
