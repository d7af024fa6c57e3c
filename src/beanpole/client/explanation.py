"""Why a job does not run, as a client sees it, and in sentences for people."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from beanpole.client.job import meta_of
from beanpole.client.stats import lines_of, unquoted
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason that holds."""

    word: str
    """What kind it is: ``paused``, ``delayed``, ``reserved`` and so on."""

    facts: Mapping[str, Any]
    """What the server says of it, by the names on the page Protocol; durations are in seconds."""

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return sentence(self.word, self.facts)


@dataclass(frozen=True, slots=True)
class Explanation(Mapping[str, str]):
    """Why a job is not being done, or why a tube hands out no jobs: what the server says, by its keys."""

    reasons: list[Reason]
    """Each reason that holds."""

    _values: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is no explanation."""
        values: dict[str, str] = {}
        reasons: list[Reason] = []
        for line in lines_of(data):
            key, colon, text = line.removeprefix("- ").partition(":")
            if not colon:
                raise UnexpectedReplyError(f"an explanation was expected: {data[:200]!r}")
            if line.startswith("- "):
                reasons.append(reason_of(key, text))
            elif key != "reasons":
                values[key] = unquoted(text.strip())
        return cls(reasons, values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def reason_of(word: str, text: str) -> Reason:
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
        found = Reason(word, json.loads(text))
        if isinstance(found.text, str):  # it has the facts that its sentence is made of
            return found
    raise UnexpectedReplyError(f"facts were expected: {text[:200]!r}")


# --- Sentences --------------------------------------------------------------------------------------------------------


Facts = Mapping[str, Any]

COUNTED_MAX = 1_000  # jobs before another one up to which a server counts

ENDS = {
    "attempts": "the last attempt failed",
    "expired": "it had waited too long",
    "given-up": "its worker gave it up",
}
"""How a job died, by the word for it."""


def number_of(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def who(facts: Facts) -> str:
    if facts["session"] < 0:
        return "another user's session"
    name = json.dumps(facts["name"], ensure_ascii=False) if "name" in facts else ""
    known = ", ".join(each for each in (facts.get("peer", ""), name) if each)
    return f"session {facts['session']} ({known})" if known else f"session {facts['session']}"


def some(facts: Facts, names: list[str]) -> str:
    if not names:
        return f"{facts['count']} of other users"
    return ", ".join(names) + (" and others" if facts["count"] > len(names) else "")


def jobs(facts: Facts) -> str:
    return f"{number_of(facts['count'], 'job', 'jobs')}, by id {some(facts, [str(id) for id in facts['ids']])}"


def delayed(facts: Facts) -> str:
    if "count" in facts:
        count = number_of(facts["count"], "job", "jobs")
        return f"{count}, the first of them, {facts['first']}, is ready in {facts['left']} s"
    why = f"after attempt {facts['attempt']}" if "attempt" in facts else "as was asked"
    return f"it is ready in {facts['left']} s, {why}"


def order(facts: Facts) -> str:
    before = facts["before"]
    return f"{number_of(before, 'job', 'or more jobs' if before >= COUNTED_MAX else 'jobs')} of the tube before it"


def concurrency(facts: Facts) -> str:
    held = number_of(facts["held"], "job of the tube is", "jobs of the tube are")
    return f"{held} held, and reserve holds no more than {facts['limit']}"


def breaker(facts: Facts) -> str:
    why = f"{facts['failed']} of {number_of(facts['of'], 'attempt', 'attempts')} failed"
    closed = f"it closed the tube {facts['ago']} s ago, as {why}"
    if "probe" in facts:
        return f"{closed}; job {facts['probe']} is being tried"
    when = f"in {facts['left']} s" if facts["left"] else "next"
    return f"{closed}; one job is tried {when}"


def reserved(facts: Facts) -> str:
    if "ids" in facts:
        return jobs(facts)
    if facts.get("closed"):
        return f"{who(facts)}, which held it, is closed, and gives its jobs back"
    left = f"{facts['left']} s of {facts['ttr']} s are left"
    return f"by {who(facts)}, last heard of {facts['silent']} s ago; {left}"


def group(facts: Facts) -> str:
    name = f"group {facts['group']}" if facts["group"] else "no group"
    held = f"of {name}, of which {number_of(facts['held'], 'job is', 'jobs are')} held"
    if "paused" in facts:
        held += f", and which is paused for {facts['paused']} s more"
    if "limit" in facts:
        held += f", and no more may be than {facts['limit']}"
    if "left" in facts:
        held += f"; its next token comes in {facts['left']} s"
    if "begun" in facts:
        held += f"; job {facts['begun']} of it has begun and must end before"
    return held


def lost(facts: Facts) -> str:
    gone = f"{who(facts)}, which holds it, has had no connection for {facts['silent']} s"
    return f"{gone} and may come back for {facts['left']} s"


def expires(facts: Facts) -> str:
    what = "dead" if facts["dead"] else "deleted"
    if "left" in facts:
        return f"it is {what} in {facts['left']} s"
    return f"it has waited too long; when it comes back, it is {what}"


def superseded(facts: Facts) -> str:
    if facts["state"] == "buried":
        return "another job took its key while it was held; kick passes over it"
    return "another job has its key; when it comes back, it is deleted"


def attempts(facts: Facts) -> str:
    limit = f" of {facts['limit']}" if "limit" in facts else ""
    return f"attempt {facts['attempt']}{limit} {'is under way' if facts['under-way'] else 'is over'}"


def died(facts: Facts) -> str:
    return f"{facts['ago']} s ago {death(facts['tube'], facts['attempts'], facts['why'])}"


HOW = {
    "failed": "its worker said so",
    "released": "its worker released it",
    "buried": "its worker buried it",
    "timed-out": "its time to run ended",
    "lost": "its worker's connection was lost",
}
"""How an attempt failed, by the word for it."""


def ended(facts: Facts) -> str:
    by = f" ({facts['by']})" if "by" in facts else ""
    error = f": {facts['error']}" if "error" in facts else ""
    return f"{facts['ago']} s ago, as {HOW.get(facts['how'], facts['how'])}{by}{error}"


def moment_text(at: datetime) -> str:
    """A time of UTC as RFC 3339 has it, with milliseconds where there are any."""
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00").removesuffix(".000") + "Z"


def scheduled(facts: Facts) -> str:
    when = moment_text(datetime.fromtimestamp(facts["scheduled"], UTC))
    fire = f", its fire {facts['fire']}" if "fire" in facts else ", as a client asked"
    return f"schedule {facts['schedule']} has put it for {when}{fire}"


def death(tube: str, attempts: int, why: str) -> str:
    end = ENDS.get(why)
    return f"in {tube}, after {number_of(attempts, 'attempt', 'attempts')}{f', as {end}' if end else ''}"


def pairs_text(meta: Mapping[str, str]) -> str:
    return ", ".join([f"{name}: {value}" for name, value in meta.items()])


def full(facts: Facts) -> str:
    if "space" in facts:
        return f"the space {facts['space']} takes {facts['limit']} {facts['of']}, and has {facts['count']}"
    if facts["rule"] == "jobs-max":
        return f"jobs-max is {facts['limit']}, and {facts['count']} are ready or delayed"
    return f"bytes-max is {facts['limit']}, and the bodies have {facts['count']} bytes"


SENTENCES: dict[str, Callable[[Facts], str]] = {
    "delayed": delayed,
    "paused": lambda facts: f"the tube is paused for {facts['left']} s more",
    "rate": lambda facts: f"the next token comes in {facts['left']} s",
    "concurrency": concurrency,
    "breaker": breaker,
    "full": full,
    "order": order,
    "told": lambda facts: (
        f"{number_of(facts['count'], 'session was', 'sessions were')} told of a job, with a second to take it"
    ),
    "unwatched": lambda _: "no session watches the tube",
    "busy": lambda facts: f"of {number_of(facts['watching'], 'session', 'sessions')} that watch the tube none waits",
    "elsewhere": lambda facts: f"{number_of(facts['waiting'], 'session waits', 'sessions wait')}, but for other tubes",
    "reserved": reserved,
    "lost": lost,
    "group": group,
    "groups": lambda facts: f"no group is open that has any of the {facts['ready']} ready jobs",
    "timeouts": lambda facts: f"its time to run has ended {number_of(facts['count'], 'time', 'times')} before",
    "buried": lambda facts: jobs(facts) if "ids" in facts else "until it is kicked, moved or reserved by its id",
    "key": lambda facts: f"job {facts['job']} has its key; kick passes over it",
    "superseded": superseded,
    "expires": expires,
    "empty": lambda _: "no job is ready",
    "waiting": lambda facts: some(facts, [who(each) for each in facts["sessions"]]),
    "log": lambda facts: facts.get("obstacle") or "reserve waits until the log has written more",
    "attempts": attempts,
    "scheduled": scheduled,
    "meta": lambda facts: pairs_text(meta_of(facts["meta"])),
    "died": died,
    "failed": lambda facts: facts["reason"],
    "ended": ended,
}
"""What is said of each reason, by its word."""


def sentence(word: str, facts: Facts) -> str:
    """A reason for people; of one that is not known here its facts. Raises KeyError when a fact is missing."""
    say = SENTENCES.get(word)
    return say(facts) if say else ", ".join(f"{name} {value}" for name, value in facts.items())
