"""The command line that does the same as an action, where that is one command.

What acts on the jobs of a filter, or of a group of failures, has none: it leaves jobs alone that were put since.
The ids of many jobs are in a file.
"""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from beanpole.address import SCHEME
from beanpole.console.actions.action import VERBS, Action, Ids, Named, Pattern, Tube
from beanpole.console.servers import Server
from beanpole.console.settings import Source
from beanpole.operations.jobs import MOVES
from beanpole.operations.schedules import utc

ACTION_BODY_SHOWN_BYTES = 4_096  # bytes of a body that stand in a command line: nobody copies more
ACTION_IDS_SHOWN = 10  # ids that stand in a command line: nobody reads more, they have to be in a file
OF_A_FILE = " < IDS"  # what a line ends with that takes the ids of jobs from a file


def command_line(server: Server, features: frozenset[str], action: Action) -> str:
    """The line for a shell that does an action; empty: there is none."""
    url = url_of(server.source)
    match action.target:
        case Ids(ids=ids):
            return of_ids(action, features, url, ids)
        case Tube(name=name):
            return of_tube(action, url, name)
        case Pattern(text=text):
            return of_pattern(action, url, text)
        case Named(name=name):
            return of_schedule(action, url, name)
    return ""


def url_of(source: Source) -> list[str]:
    """The option that leads a command to a server; one that has started the console is called as it listens."""
    if source.address is not None:
        return ["--url", str(source.address)]
    if source.name.startswith("unix:"):
        return ["--url", source.name]
    return ["--url", SCHEME + source.name] if ":" in source.name else []  # else it is the name of a node


def words(*given: object) -> str:
    return shlex.join(str(each) for each in given)


def options_of(action: Action) -> list[str]:
    flags = {each.name: each.flag.split()[-1] if each.flag else f"--{each.name}" for each in VERBS[action.verb].options}
    return [f"{flags[name]}={number(value)}" for name, value in action.given.items() if name != "body"]


def number(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def of_ids(action: Action, features: frozenset[str], url: Sequence[str], ids: Sequence[int]) -> str:
    if action.verb == "redrive" or (action.verb == "move" and MOVES not in features):
        return ""
    name = {"move": "change", "snooze": "snooze" if "snooze-job" in features else "release"}.get(
        action.verb, action.verb
    )
    body = action.given.get("body")
    given = [*options_of(action), *([] if body is None else [f"--body={plain(body) or '-'}"])]
    before = f"{printed(body)} | " if body is not None and not plain(body) else ""
    if len(ids) <= ACTION_IDS_SHOWN:
        return before + words("beanpole", name, *given, *url, *ids)
    # Standard input is one of the two, and xargs may call the program twice.
    return "" if before else words("xargs", "beanpole", name, *given, *url) + OF_A_FILE


def plain(body: bytes) -> str:
    """A body that can be an argument; empty: it can't."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    return text if text != "-" and len(body) <= ACTION_BODY_SHOWN_BYTES and is_readable(text) else ""


def is_readable(text: str) -> bool:
    """Whether nothing in it is lost, or disturbs a terminal."""
    return all(each.isprintable() or each in "\n\t" for each in text)


def printed(body: bytes) -> str:
    """A command that writes a body. Nobody copies a long one: it has to be in a file."""
    if len(body) > ACTION_BODY_SHOWN_BYTES:
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


def of_tube(action: Action, url: Sequence[str], tube: str) -> str:
    given = action.given
    match action.verb:
        case "put":
            return f"{printed(given['body'])} | {words('beanpole', 'put', *url, '--tube', tube, *options_of(action))}"
        case "pause" | "resume":
            seconds = ["--for", given["seconds"]] if action.verb == "pause" else []
            group = [f"--group={given['group']}"] if "group" in given else []
            return words("beanpole", action.verb, *url, *seconds, *group, tube)
        case "clear":
            states = [f"--state={state}" for state in given.get("states", ())]
            return words("beanpole", "clear", *url, "--yes", *states, tube)
    return words("beanpole", action.verb, *url, tube)


def of_pattern(action: Action, url: Sequence[str], pattern: str) -> str:
    if action.verb == "drop-rules":
        return words("beanpole", "rules", "drop", *url, pattern)
    lines = [line.strip() for line in action.given.get("rules", "").splitlines() if line.strip()]
    return words("beanpole", "rules", "set", *url, pattern, *lines) + ("" if lines else " < /dev/null")


def of_schedule(action: Action, url: Sequence[str], name: str) -> str:
    """The line about a schedule; empty: it is to be set and keeps a body that the line would have to say."""
    verb, given = action.verb.removesuffix("-schedule"), action.given
    if verb != "set":
        at = [f"--at={utc(datetime.fromtimestamp(given['at'], UTC))}"] if "at" in given else []
        return words("beanpole", "schedule", verb, *url, *at, name)
    if "body" not in given:
        return ""
    lines = [line.partition(":") for line in given["lines"].split("\n") if line.strip()]
    options = [
        f"--{key.strip()}={each}"
        for key, _, value in lines
        for each in (value.split() if key.strip() == "except" else [value.strip()])
    ]
    body = given["body"]
    before = "" if plain(body) or not body else f"{printed(body)} | "
    return before + words("beanpole", "schedule", "set", *url, *options, "--", name, "-" if before else body.decode())
