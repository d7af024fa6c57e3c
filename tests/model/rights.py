"""What a user may do, said once more and plainly: by names of tubes, and by what an engine without users says of jobs.

A right that the table of the engine has otherwise is a difference between the two.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

Patterns = dict[str, tuple[bytes, ...]]

OWN_WORDS = {"use", "watch", "ignore", "list-tube-used", "list-tubes-watched", "keep-session"}
OF_HOLDERS = {"release", "bury", "touch", "fail-job"}
OF_USED = {"put": "put", "peek-ready": "look", "peek-delayed": "look", "peek-buried": "look", "kick": "manage"}
OF_NAMED = {
    **dict.fromkeys(("find-job", "list-jobs"), "look"),
    **dict.fromkeys(("pause-tube", "cancel-key", "clear-tube", "move-jobs"), "manage"),
    **dict.fromkeys(("stats-tube", "stats-groups", "get-rules"), "any"),
}
OF_JOBS = {
    **dict.fromkeys(("kick-job", "reserve-job", "cancel-job", "change-job", "change-body"), "manage"),
    "peek": "look",
    "stats-job": "any",
}
NOT_FOUND = {
    *(
        "peek-ready",
        "peek-delayed",
        "peek-buried",
        "find-job",
        "pause-tube",
        "cancel-key",
        "stats-tube",
        "stats-groups",
    ),
    *("get-rules", "drop-rules", "delete", *OF_JOBS),
}
"""The commands that answer what is not there with that."""


@dataclass
class Known:
    """What decides: of an engine without users, and of one of its sessions."""

    jobs: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Of each job its tube and its state."""
    used: str = "default"
    watched: Iterable[str] = ()
    splits: Iterable[str] = ()
    """Tubes whose rules split names of groups off."""


class Rights:
    """The rights of one user."""

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = {right: [each.decode() for each in some] for right, some in patterns.items()}

    def has(self, right: str, tube: str) -> bool:
        wanted = {"look": ["look", "manage"], "any": list(self.patterns)}.get(right, [right])
        return any(fits(pattern, tube) for each in wanted for pattern in self.patterns.get(each, ()))

    def may_put(self, known: Known, tube: str) -> bool:
        home = tube.partition(";")[0]
        return self.has("put", home if ";" in tube and home in known.splits else tube)

    def is_seen(self, known: Known, tube: str) -> bool:
        """Whether a session that uses a tube uses that of this name."""
        return self.has("any", tube) or self.may_put(known, tube)

    def missing(self, known: Known, verb: str, *words: str) -> tuple[str, str] | None:  # noqa: PLR0911 - one for a kind
        """The right that a command lacks and the tube to which; None: it may run. A right of "": nobody is told."""
        if verb in OWN_WORDS or verb in OF_HOLDERS or (verb == "delete-many"):
            return None
        if verb in {"reserve-with-timeout", "reserve-many"}:
            watched = list(known.watched)
            return None if any(self.has("reserve", tube) for tube in watched) else ("reserve", watched[0])
        if verb == "put":
            return None if self.may_put(known, known.used) else ("put", known.used)
        if verb in OF_USED:
            return self.lacks(OF_USED[verb], known.used)
        options = dict(word.split("=") for word in words if "=" in word)
        if verb == "put-job":
            tube = options.get("tube", known.used)
            home = tube.partition(";")[0]
            got = home if ";" in tube and home in known.splits and "group" not in options else tube
            return self.lacks("put", got)
        if verb == "move-jobs" and self.has("manage", words[0]):
            return self.lacks("put", options["to"])
        if verb in OF_NAMED:
            return self.lacks(OF_NAMED[verb], words[0])
        if verb in {"set-rules", "drop-rules"}:
            return self.missing_rules(verb, *words)
        return self.missing_for_job(known, verb, int(words[0]), options)

    def missing_rules(self, verb: str, pattern: str, *words: str) -> tuple[str, str] | None:
        if not any(within(pattern, mine) for mine in self.patterns.get("rules", ())):
            return ("rules", pattern)
        dead = re.search("dead: (.*)\n", words[-1]) if verb == "set-rules" else None
        return self.lacks("put", dead[1]) if dead else None

    def missing_for_job(self, known: Known, verb: str, id: int, options: dict[str, str]) -> tuple[str, str] | None:
        tube, state = known.jobs.get(id, ("", ""))
        if not tube or (verb == "delete" and state == "reserved"):
            return None  # whoever does not hold it hears that it is not there
        right = ("reserve" if state == "ready" else "manage") if verb == "delete" else OF_JOBS[verb]
        if not self.has(right, tube) and not (verb == "delete" and self.has("manage", tube)):
            return (right if self.has("any", tube) else "", tube)
        if verb == "change-job" and options.get("tube", tube) != tube:
            return self.lacks("put", options["tube"])
        return None

    def lacks(self, right: str, tube: str) -> tuple[str, str] | None:
        return None if self.has(right, tube) else (right, tube)


def fits(pattern: str, tube: str) -> bool:
    return tube.startswith(pattern[:-1]) if pattern.endswith("*") else tube == pattern


def within(pattern: str, mine: str) -> bool:
    """Whether all that a pattern fits another one fits."""
    return pattern == mine or (mine.endswith("*") and pattern.startswith(mine[:-1]))


def refusal(verb: str, lacking: tuple[str, str], *, hears: bool) -> str:
    """What a command is answered that lacks a right."""
    right, tube = lacking
    if right and hears:
        return f"FORBIDDEN {'look' if right == 'any' else right} {tube}\r\n"
    return "NOT_FOUND\r\n" if verb in NOT_FOUND else "UNKNOWN_COMMAND\r\n"
