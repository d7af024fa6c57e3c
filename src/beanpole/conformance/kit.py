"""The conformance kit: plays all scripts that can be played against a server that others use, and gathers the results.

A script is skipped, with the reason, if it needs a server of its own, and if the server does not list an extension that
it uses. Without extensions the measure is beanstalkd, with them it is docs/protocol.md in full.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from beanpole.conformance.limits import (
    AT_ONCE,
    BEANSTALKD_TRIES,
    BODY_BYTES_SENT_MAX,
    PATIENCE_S,
    SCRIPT_SECONDS_MAX,
    SETTLE_S,
    TRIES,
)
from beanpole.conformance.names import (
    DEFAULT,
    ISSUED,
    OPTIONS,
    WORDS,
    Frame,
    Id,
    Names,
    OwnServerError,
    Stream,
    expectation,
)
from beanpole.conformance.run import Problem, Run
from beanpole.conformance.script import SCRIPTS, Script, read_script
from beanpole.conformance.target import ServerTarget
from beanpole.conformance.visit import Dial, Talk, clean, moved_in
from beanpole.limits import BODY_BYTES_MAX_DEFAULT
from beanpole.protocol.rules import RULES

DECIMALS = re.compile(rb"(?:put|release|pause-tube) [^=]*\d\.\d{1,3}(?: .*)?")
"""A command of beanstalkd's with a fraction of a second."""

RULE = re.compile(rb"rule\.([a-z-]+):.*")
OF_US = "extension", "fractions"
"""What a script is about that says, with one of these words, that it is not for beanstalkd."""


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


@dataclass(frozen=True)
class Needs:
    """What a script needs: a server of its own, for a reason; features that list-extensions lists."""

    own_server: str
    features: frozenset[str]


def scripts(server_bytes_max: int = BODY_BYTES_MAX_DEFAULT) -> list[Script]:
    """Return all scripts, for a server that takes bodies of so many bytes; larger ones than we send are not made."""
    return [read_script(path, min(server_bytes_max, BODY_BYTES_SENT_MAX + 1)) for path in SCRIPTS]


def names_for(script: Script, prefix: bytes) -> Names:
    """Return new names for a run of a script."""
    issued = {int(number) for step in script.steps for number in ISSUED.findall(step.data)}
    names = Names(prefix, issued=frozenset(issued), body_bytes_max=script.body_bytes_max)
    names.tube(DEFAULT)
    return names


def needs_of(script: Script) -> Needs:
    """Find out what a script needs, by playing it without a server."""
    names = names_for(script, b"p" * len(prefix_of(0)))
    streams: dict[str, Stream] = {}
    reason = next(reasons_for_own_server(script), "")
    try:
        for step in script.steps:
            if step.kind == "send":
                names.sent(step.data, streams.setdefault(step.name, Stream()))
            for part in expectation(step.data, names) if step.kind == "expect" else ():
                known = part.id if isinstance(part, Frame) else part
                if isinstance(known, Id):
                    names.learn({known.number: known.number})
    except OwnServerError as error:
        reason = reason or str(error)
    return Needs(reason, frozenset(features_of(script, names.lines)))


def reasons_for_own_server(script: Script) -> Iterator[str]:
    """Return why a script can't be played against a server that is in use, as far as it says so itself."""
    if reason := script.settings.get("own server", ""):
        yield reason
    if "max-job-size" in script.settings:
        yield f"bodies have at most {script.body_bytes_max} bytes there"
    if script.sends_largest and script.body_bytes_max > BODY_BYTES_SENT_MAX:
        yield f"bodies of more than {BODY_BYTES_SENT_MAX} bytes would be sent"
    if "tubes-max" in script.settings:
        yield f"there may be {script.tubes_max} tubes"
    if reason := script.settings.get("only engine", ""):
        yield f"its clock must stand still: {reason}"
    if any(step.kind == "drain" for step in script.steps):
        yield "it drains"
    if script.seconds > SCRIPT_SECONDS_MAX:
        yield f"it takes {script.seconds} s"


def features_of(script: Script, lines: Iterable[bytes]) -> Iterator[str]:
    """Return the names in list-extensions of all that the lines of a script use."""
    if script.settings.get("not beanstalkd") == "fractions" or any(map(DECIMALS.fullmatch, lines)):
        yield "fractions"
    for line in lines:
        verb, _, rest = line.partition(b" ")
        if verb in WORDS:
            yield verb.decode()
            for word in rest.split(b" "):
                option, equals, _ = word.partition(b"=")
                if equals and option in OPTIONS[verb]:
                    yield f"{verb.decode()}.{option.decode()}"
        elif (rule := RULE.fullmatch(line)) and rule[1].decode() in RULES:
            yield f"rule.{rule[1].decode()}"


def prefix_of(number: int) -> bytes:
    """Return the prefix of the tubes of a run: no other run has it."""
    return b"conformance-%s-%03d-" % (secrets.token_hex(4).encode(), number)


def skipped_for(script: Script, needs: Needs, listed: frozenset[str] | None) -> str:
    """Return why a script is not played against a server that lists these extensions; None: they are not asked for."""
    if needs.own_server:
        return f"needs a server of its own: {needs.own_server}"
    if listed is None:
        for setting in ("not beanstalkd", "beanstalkd 1.13 only"):
            if reason := script.settings.get(setting, ""):
                return f"not all servers do so: {reason}"
        return ""
    missing = sorted(needs.features - listed)
    return f"not in list-extensions: {', '.join(missing)}" if missing else ""


def listed_by(dial: Dial) -> frozenset[str]:
    """Ask a server for its extensions. Raises OSError."""
    talk = Talk(dial())
    with talk.connection:
        lines = talk.ask_body(b"list-extensions").decode(errors="replace").splitlines()
    return frozenset(line.removeprefix("- ") for line in lines if line.startswith("- "))


def body_bytes_max_of(dial: Dial) -> int:
    """Ask a server how large a body may be; if it does not say, as large as beanstalkd's. Raises OSError."""
    talk = Talk(dial())
    with talk.connection:
        found = re.search(rb"^max-job-size: (\d+)$", talk.ask_body(b"stats"), re.MULTILINE)
    return int(found[1]) if found else BODY_BYTES_MAX_DEFAULT


def examine(dial: Dial, *, extensions: bool, patience_s: float = PATIENCE_S) -> list[Result]:
    """Play all scripts; those of extensions only if these are asked for.

    Raises OSError: the server can't be reached.
    """
    server_bytes_max = body_bytes_max_of(dial)
    listed = listed_by(dial) if extensions else None
    results, chosen = [], []
    for script in scripts(server_bytes_max):
        needs = needs_of(script)
        if listed is None and (needs.features or script.settings.get("not beanstalkd") in OF_US):
            continue
        if reason := skipped_for(script, needs, listed):
            results.append(Result(script, skipped=reason))
        else:
            chosen.append(script)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [
            pool.submit(play, dial, script, number, patience_s, like_beanstalkd=listed is None)
            for number, script in enumerate(chosen)
        ]
        results += [run.result() for run in runs]
    return sorted(results, key=lambda result: result.script.path.name)


def play(dial: Dial, script: Script, number: int, patience_s: float, *, like_beanstalkd: bool) -> Result:
    """Play a script, again if it fails and time passes in it, which a machine that stalls gets wrong.

    With `like_beanstalkd` whatever a release of it does is right.
    """
    tries = TRIES if script.seconds else 1
    if like_beanstalkd and "beanstalkd retried" in script.settings:
        tries = BEANSTALKD_TRIES
    problem = None
    for _ in range(tries):
        problem = visit(dial, script, names_for(script, prefix_of(number)), patience_s, may_quote=like_beanstalkd)
        if problem is None:
            break
    return Result(script, problem)


def visit(dial: Dial, script: Script, names: Names, patience_s: float, *, may_quote: bool) -> Problem | None:
    """Play a script once, and remove what it leaves."""
    target = ServerTarget(lambda: moved_in(dial, names), _never, patience_s, SETTLE_S)
    run = Run(script, target, names, may_quote=may_quote)
    try:
        problem = run.outcome()
    except OSError as error:
        problem = run.problem(None, "", f"the connection broke: {error}")
    finally:
        target.close()
    try:
        clean(dial, names, rules=any(line.startswith(b"set-rules ") for line in names.lines))
    except OSError as error:
        problem = problem or run.problem(None, "", f"could not be cleaned up: {error}")
    return problem


def _never() -> None:
    raise AssertionError("a server that is in use does not drain for us")
