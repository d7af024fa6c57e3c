"""The one list of what Beanpole answers otherwise than beanstalkd 1.12, and what the comparison does about it.

Nothing else may differ. docs/compatibility.md tells users the same by the same names. A difference is either
normalised, by a function here, or avoided, by a rule of the generator in `conversation`, and told by a golden script.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`item` counts those of beanstalkd's behaviour as the scripts do; `handled` says how the comparison does."""

    name: str
    item: str
    reason: str
    handled: str


DIFFERENCES = [
    Difference(
        "quoting", "65", "clients read the strings of stats with YAML; tube names are never quoted", "normalised"
    ),
    Difference("version", "65", "clients parse it, and we answer as 1.13 does", "normalised"),
    Difference("own-keys", "62", "what only Beanpole has to say stands at the end of stats", "normalised"),
    Difference("half-uploaded-job", "24", "a job whose body is incomplete is nobody's business", "normalised"),
    Difference("failed-put-takes-no-id", "21", "an id is only for a job that exists", "normalised"),
    Difference("fractions", "46", "a second is a long time", "avoided"),
    Difference("extensions", "1", "more commands, which only clients that ask for them use", "avoided"),
    Difference("line-of-225-bytes", "6", "a lost reply is a bug", "avoided"),
    Difference("lone-cr", "7", "a connection that blocks is a bug", "avoided"),
    Difference("reserve-timeout-number", "35", "we answer as 1.13 does", "avoided"),
    Difference("waiting-order", "33", "who waits longest is served first", "avoided"),
    Difference("jobs-due-at-once", "60", "the best job comes first, as it does otherwise", "avoided"),
    Difference("one-time-per-turn", "46", "all commands that arrive together happen at the same time", "avoided"),
    Difference("jobs-given-back-at-once", "56", "the best job comes first, as it does otherwise", "avoided"),
    Difference("lost-connection", "59", "whether buffered commands still run is chance in beanstalkd", "avoided"),
    Difference("deadline-soon-after-stall", "83", "a reply that overwrites RESERVED loses a job", "avoided"),
    Difference("ttr-timer", "54", "a lost timer leaves a job reserved for ever", "avoided"),
]

SAME = "same"
"""Stands for a value that is not compared."""

VOLATILE = {"pid", "rusage-utime", "rusage-stime", "uptime", "id", "hostname", "os", "platform", "total-connections"}
"""What differs between any two servers. The connection that found beanstalkd ready counts in total-connections."""

OF_A_LOG = {"file"}
"""What depends on the log, which not every side has."""

RUNNING = {"age", "time-left", "pause-time-left"}
"""What changes by itself; all times in the conversations are so long that it is 0 in both or in none. Age is short."""

SHORT_S = 500
"""More than a conversation takes on any machine, and less than what is left of the shortest of its times."""

LAST_KEY = "platform"
"""The last of beanstalkd's keys in stats; ours stand behind it."""

OVER_SHARDS = [
    Difference(
        "order-over-shards", "32", "each has a queue of its own, and who watches several gets of each", "avoided"
    ),
    Difference("statistics-of-shards", "62", "each counts what it was asked", "normalised"),
    Difference(
        "tubes-of-shards", "58", "each has a list of its own, and learns of a change when it is needed", "normalised"
    ),
]
"""What a router of several shards answers otherwise than one server."""

COUNTED_ONCE = {
    "name", "pause", "pause-time-left", "cmd-pause-tube", "total-jobs", "max-job-size", "job-timeouts",
    "current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried",
    "cmd-put", "cmd-delete", "cmd-release", "cmd-bury", "cmd-touch", "cmd-stats-job",
}  # fmt: skip
"""What `stats` and `stats-tube` say of several servers, summed, and say of one."""

Lines = list[tuple[str, str]]
"""The keys and values of a stats reply, in order."""


def _version(lines: Lines) -> Lines:
    return [(key, SAME if key == "version" else value) for key, value in lines]


def _own_keys(lines: Lines) -> Lines:
    keys = [key for key, _ in lines]
    return lines[: keys.index(LAST_KEY) + 1] if LAST_KEY in keys else lines


def _half_uploaded_job(lines: Lines) -> Lines:
    """A put and its producer count when the line has arrived, in beanstalkd; when the body has, in Beanpole."""
    return [(key, SAME if key in ("cmd-put", "current-producers") else value) for key, value in lines]


def _quoting(lines: Lines) -> Lines:
    return [(key, value.strip('"') if key in ("hostname", "os", "platform") else value) for key, value in lines]


NORMALISED: dict[str, Callable[[Lines], Lines]] = {
    "version": _version,
    "own-keys": _own_keys,
    "half-uploaded-job": _half_uploaded_job,
    "quoting": _quoting,
}
"""What is done to statistics. `failed-put-takes-no-id` is in `normal_reply`, which knows jobs by their order."""


def normal_statistics(lines: Lines) -> Lines:
    """The keys and values of a stats reply without the differences."""
    for normalise in NORMALISED.values():
        lines = normalise(lines)
    if any(key == "pid" for key, _ in lines):
        return [(key, SAME if key in VOLATILE else value) for key, value in lines]
    lines = [(key, SAME if key in OF_A_LOG else value) for key, value in lines]
    return [(key, str(int(value) > SHORT_S) if key in RUNNING else value) for key, value in lines]


def normal_reply(reply: bytes, ordinals: dict[int, int]) -> str:
    """A reply as text without the differences; `ordinals` numbers the server's ids in the order of their jobs."""
    head, _, rest = reply.decode("latin-1").partition("\r\n")
    word, *numbers = head.split(" ")
    if word in ("INSERTED", "RESERVED", "FOUND", "BURIED") and numbers:
        job = f"job {ordinals.get(int(numbers[0]), numbers[0])}"
        return "\n".join([" ".join([word, job, *numbers[1:]]), rest])
    if word != "OK":
        return reply.decode("latin-1")
    assert int(numbers[0]) == len(rest) - 2, f"the size of {reply!r} is wrong"
    lines = rest.removesuffix("\n\r\n").split("\n")
    assert lines[0] == "---", f"{reply!r} is no YAML"
    if not any(": " in line for line in lines[1:]):
        return "\n".join(["list", *lines[1:]])
    pairs = [(key, value) for key, _, value in (line.partition(": ") for line in lines[1:])]
    if pairs[0][0] == "id":
        pairs[0] = ("id", f"job {ordinals.get(int(pairs[0][1]), pairs[0][1])}")
    return "\n".join(["statistics", *(f"{key}: {value}" for key, value in normal_statistics(pairs))])


def normal_over_shards(reply: bytes, ordinals: dict[int, int]) -> str:
    """The same without what differs where a router passes commands on to several servers."""
    kind, *lines = normal_reply(reply, ordinals).split("\n")
    if kind == "list":
        return "\n".join([kind, *sorted(lines)])
    if kind == "statistics" and not lines[0].startswith("id: "):
        lines = [line for line in lines if line.partition(": ")[0] in COUNTED_ONCE]
    return "\n".join([kind, *lines])
