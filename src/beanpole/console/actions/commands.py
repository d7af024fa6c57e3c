"""The command line that does the same as an action.

What acts on a filter is made of ``list``, which writes a line for each job, and of a verb that takes ids: so jobs that
have been put since are left alone there as well.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from beanpole.client import JobInfo
from beanpole.client.address import SCHEME
from beanpole.console import limits
from beanpole.console.actions.action import Action, Filter, Given, Ids, Pattern, Tube
from beanpole.console.servers import Server
from beanpole.console.settings import Source


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the jobs of an action."""

    highest: int | None = None
    """The highest id of a filter."""

    jobs: Sequence[JobInfo] = ()
    """Some of them."""

    is_named: bool = False
    """Whether the command names these, as nothing else finds them."""


NOTHING_KNOWN = Known()


def command_line(server: Server, features: frozenset[str], action: Action, known: Known = NOTHING_KNOWN) -> str:
    """The lines for a shell that do an action."""
    highest, jobs = known.highest, known.jobs
    if action.verb == "snooze" and "snooze-job" not in features:
        action = replace(action, verb="release")
    if action.verb == "move" and "change-job.tube" not in features:
        action = replace(action, verb="copy")
    url = url_of(server.source)
    if known.is_named:
        return of_ids(action, url, [job.id for job in jobs], jobs)
    match action.target:
        case Ids(ids=ids):
            return of_ids(action, url, ids, jobs)
        case Tube(name=name):
            return of_tube(action, url, name)
        case Pattern(text=text):
            return of_pattern(action, url, text)
        case Filter():
            return of_filter(action, url, action.target, highest)
    return ""


def url_of(source: Source) -> list[str]:
    """The option that leads a command to a server; one that has started the console is called as it listens."""
    if source.address is not None:
        return ["--url", str(source.address)]
    if source.name.startswith("unix:"):
        return ["--url", source.name]
    return ["--url", SCHEME + source.name] if ":" in source.name else []  # else it is the name of a node


def words(*given: object) -> str:
    """Words as a shell reads them."""
    return shlex.join(str(each) for each in given)


def options_of(given: Given) -> list[str]:
    """What is given, as options."""
    named = {
        "--tube": given.to,
        "--priority": given.priority,
        "--delay": given.delay,
        "--ttr": given.ttr,
        "--expire": given.expire,
        "--key": given.key,
        "--taken": given.taken,
        "--until": given.until,
    }
    return [f"{name}={number(value)}" for name, value in named.items() if value is not None]


def number(value: object) -> str:
    """A value as it stands in a command line."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def of_ids(action: Action, url: Sequence[str], ids: Sequence[int], jobs: Sequence[JobInfo]) -> str:
    """Of jobs that were chosen one by one."""
    if action.verb == "redrive":
        return redriven(url, jobs)
    if not ids:
        return ""
    before, verb = body_and_verb(action)
    return before + words("beanpole", *verb, *url, *ids)


def redriven(url: Sequence[str], jobs: Sequence[JobInfo]) -> str:
    """Jobs that go back to where they died: those of each tube together, and then what is buried there."""
    moved: dict[str, list[int]] = {}
    for job in jobs:
        if job.origin:
            moved.setdefault(job.origin, []).append(job.id)
    kicked = [job.id for job in jobs if job.state == "buried"]
    lines = [words("beanpole", "change", *url, "--tube", tube, *ids) for tube, ids in moved.items()]
    return "\n".join([*lines, *([words("beanpole", "kick", *url, *kicked)] if kicked else [])])


def body_and_verb(action: Action) -> tuple[str, list[str]]:
    """What feeds a verb that takes ids, and the verb with its options."""
    body, name = action.given.body, {"move": "change"}.get(action.verb, action.verb)
    options = options_of(action.given)
    if body is None:
        return "", [name, *options]
    if text := plain(body):
        return "", [name, *options, f"--body={text}"]
    return f"{printed(body)} | ", [name, *options, "--body=-"]


def plain(body: bytes) -> str:
    """A body that can be an argument; empty: it can't."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    return text if text != "-" and len(body) <= limits.ACTION_BODY_SHOWN_BYTES and is_readable(text) else ""


def is_readable(text: str) -> bool:
    """Whether nothing in it is lost, or disturbs a terminal."""
    return all(each.isprintable() or each in "\n\t" for each in text)


def printed(body: bytes) -> str:
    """A command that writes a body. Nobody copies a long one: it has to be in a file."""
    if len(body) > limits.ACTION_BODY_SHOWN_BYTES:
        return "cat BODY"
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if is_readable(text):
        return f"printf %s {shlex.quote(text)}"
    return "printf '" + "".join(map(octal, body)) + "'"


def octal(byte: int) -> str:
    """A byte as printf reads it, in single quotes."""
    is_plain = chr(byte).isascii() and chr(byte).isalnum()
    return chr(byte) if is_plain or chr(byte) in " .,:;/_-" else f"\\{byte:03o}"


def of_filter(action: Action, url: Sequence[str], wanted: Filter, highest: int | None) -> str:
    """Of what a filter finds: the ids of a list, up to the highest, become arguments."""
    if action.verb == "copy":
        to = action.given.to or ""
        return words("beanpole", "move", *url, "--state", wanted.state, wanted.tube, to)
    text = [f"--text={wanted.text}"] if wanted.text else []
    listed = words("beanpole", "list", *url, "--state", wanted.state, *text, wanted.tube)
    chosen = "awk 'NR > 1'" if highest is None else f"awk 'NR > 1 && $1 <= {highest}'"
    _, verb = body_and_verb(action)
    return f"{listed} | {chosen} | cut -f1 | xargs -r {words('beanpole', *verb, *url)}"


def of_tube(action: Action, url: Sequence[str], tube: str) -> str:
    """Of what is about a tube."""
    given = action.given
    match action.verb:
        case "put":
            assert given.body is not None, "it is asked for"
            return f"{printed(given.body)} | {words('beanpole', 'put', *url, '--tube', tube, *options_of(given))}"
        case "pause":
            return words("beanpole", "pause", *url, "--for", given.seconds, tube)
        case "clear":
            states = [f"--state={state}" for state in given.states]
            return words("beanpole", "clear", *url, "--yes", *states, tube)
    return words("beanpole", action.verb, *url, tube)


def of_pattern(action: Action, url: Sequence[str], pattern: str) -> str:
    """Of what is about rules."""
    if action.verb == "drop-rules":
        return words("beanpole", "rules", "drop", *url, pattern)
    lines = [line.strip() for line in (action.given.rules or "").splitlines() if line.strip()]
    return words("beanpole", "rules", "set", *url, pattern, *lines) + ("" if lines else " < /dev/null")
