r"""The notation of the golden scripts, and its reader.

A script is a conversation between a few connections and one fresh server:

    # reserve_deadline_soon_while_waiting (item 39)
    a> put 0 0 2 1 / x          a sends a line and its CRLF; " / " stands for a CRLF inside
    a< INSERTED 1               the next reply to a, with its CRLF
    a~ res                      a sends just these bytes
    a-                          a has got nothing that was not expected above
    + 1.5s                      time passes
    a half-closes               a sends its FIN
    a disconnects
    a connects                  only where it matters when; else a connection opens with its first line
    a is closed                 the server has closed the connection
    drain                       the server enters drain mode

In data, `\r \n \t \0 \\ \xHH` are bytes, `\s` is a space (for the end of a line), `{x*300}` is 300 times `x`.
`{max}` is the largest body that the server takes, in bytes, `{max+1}` one more, and `{x*max}` so many times `x`.
After `a< OK`, indented lines name some of the statistics that the reply must hold, in their order:

    a< OK
      keys: id tube ...         all keys in order; `...` at the end allows more
      state: ready              a key and its exact value
      age ~ [0-9]+              a key and a pattern for its value
      - empty: no job is ready  the same of an item of a list, whose key is `-empty`
      name: "x"                 of several alike, as in a list of sessions, the last one

Lines that begin with `#` are comments. Some at the top tell the runner something:

    # clause: put               the heading of docs/protocol.md that says what is tested
    # max-job-size: 10          the server's limit (beanstalkd's -z)
    # tubes-max: 2              so many tubes may there be (--tubes-max), which beanstalkd does not limit
    # not beanstalkd: reason    where Beanpole differs on purpose
    # beanstalkd retried: reason  where it fails now and then by a mistake of its own
    # beanstalkd 1.13 only: r   where beanstalkd 1.12 behaves otherwise, for this reason
    # not engine: reason          where the server adds something
    # only engine: reason       where real time is too slow or not exact enough
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from beanpole.limits import BODY_BYTES_MAX_DEFAULT, TUBES_MAX

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.txt"))
"""The files of all scripts."""

SAID = re.compile(r"(?P<name>[a-z])(?P<kind>[>~<])(?: (?P<text>.*))?")
SILENT = re.compile(r"(?P<name>[a-z])-")
DONE = re.compile(r"(?P<name>[a-z]) (?P<kind>connects|disconnects|half-closes|is closed)")
PASSED = re.compile(r"\+ (?P<seconds>[0-9.]+)s")
SETTINGS = "clause|max-job-size|tubes-max|not engine|not beanstalkd|beanstalkd retried|beanstalkd 1.13 only|only engine"
SETTING = re.compile(rf"# (?P<key>{SETTINGS}): (?P<value>.+)")
LARGEST = re.compile(r"\{(?:(?P<text>[^{}]+)\*)?max(?:\+(?P<more>\d+))?\}")
REPEATED = re.compile(r"\{(?P<text>[^{}]+)\*(?P<count>\d+)\}")
ESCAPED = re.compile(rb"\\(x[0-9a-f]{2}|.)")
ESCAPES = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"s": b" ", b"\\": b"\\"}


@dataclass
class Step:
    """One line of a script. `data` is what is sent or expected, `seconds` how long time passes."""

    line: int
    kind: str
    name: str = ""
    data: bytes = b""
    seconds: float = 0.0
    statistics: list[str] = field(default_factory=list)


@dataclass
class Script:
    """A whole script; `settings` are the comments at the top that mean something."""

    path: Path
    steps: list[Step]
    settings: dict[str, str]
    title: str = ""
    """What the script shows, as its first line says it."""
    server_bytes_max: int = BODY_BYTES_MAX_DEFAULT
    """The largest body that the server takes, unless the script wants another."""

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def body_bytes_max(self) -> int:
        return int(self.settings.get("max-job-size", self.server_bytes_max))

    @property
    def tubes_max(self) -> int:
        return int(self.settings.get("tubes-max", TUBES_MAX))


def data_of(text: str, body_bytes_max: int = BODY_BYTES_MAX_DEFAULT) -> bytes:
    """The bytes that a piece of a script stands for, on a server that takes bodies of so many bytes."""

    def largest(found: "re.Match[str]") -> str:
        size = body_bytes_max + int(found["more"] or 0)
        return found["text"] * size if found["text"] else str(size)

    repeated = REPEATED.sub(lambda found: found["text"] * int(found["count"]), LARGEST.sub(largest, text))
    lines = re.split(r" /(?: |$)", repeated)
    return b"\r\n".join(ESCAPED.sub(_unescape, line.encode()) for line in lines)


def _unescape(found: "re.Match[bytes]") -> bytes:
    code = found[1]
    return bytes([int(code[1:], 16)]) if len(code) == 3 else ESCAPES[code]


def read_script(path: Path, server_bytes_max: int = BODY_BYTES_MAX_DEFAULT) -> Script:
    """Reads a script for a server that takes bodies of so many bytes; a line that is none of the above is an error."""
    lines = path.read_text().splitlines()
    script = Script(path, [], {}, lines[0].removeprefix("# ") if lines else "", server_bytes_max)
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            if setting := SETTING.fullmatch(line):
                script.settings[setting["key"]] = setting["value"]
        elif line.startswith("  "):
            script.steps[-1].statistics.append(line.strip())
        elif line.strip():
            script.steps.append(_read_step(number, line.strip(), script))
    return script


def _read_step(number: int, line: str, script: Script) -> Step:
    if said := SAID.fullmatch(line):
        end = b"" if said["kind"] == "~" else b"\r\n"
        kind = "expect" if said["kind"] == "<" else "send"
        return Step(number, kind, said["name"], data_of(said["text"] or "", script.body_bytes_max) + end)
    if silent := SILENT.fullmatch(line):
        return Step(number, "silence", silent["name"])
    if done := DONE.fullmatch(line):
        return Step(number, done["kind"], done["name"])
    if passed := PASSED.fullmatch(line):
        return Step(number, "advance", seconds=float(passed["seconds"]))
    if line == "drain":
        return Step(number, "drain")
    raise ValueError(f"{script.path.name}:{number}: {line!r} is no line of a script")


def check_statistics(body: bytes, wanted: list[str], *, may_quote: bool = False) -> str:
    """What is wrong with the body of a stats reply; empty when it holds all that is wanted.

    `may_quote`: the name of a tube may stand in quotes.
    """
    lines = body.decode().splitlines()
    if lines[:1] != ["---"] or not body.endswith(b"\n"):
        return f"{body!r} is no block of statistics"
    parts = [re.sub("^- |^  ", lambda found: found[0].strip(), line).partition(": ") for line in lines[1:]]
    found = {key.removesuffix(":"): value for key, _, value in parts}
    if may_quote:
        found |= {key: re.sub('^"(.*)"$', r"\1", found[key]) for key in ("name", "tube") if key in found}
    for want in wanted:
        key, separator, value = re.split(r"(: | ~ )", re.sub("^- ", "-", want), maxsplit=1)
        if key == "keys":
            keys, more = value.removesuffix(" ...").split(), value.endswith(" ...")
            if (list(found)[: len(keys)] if more else list(found)) != keys:
                return f"the keys are {' '.join(found)}"
        elif key not in found:
            return f"there is no {key}"
        elif not (found[key] == value if separator == ": " else re.fullmatch(value, found[key])):
            return f"{key} is {found[key]}, wanted {want}"
    return ""
