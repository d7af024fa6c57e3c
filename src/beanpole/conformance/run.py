"""Plays a golden script against a target, and says where the conversation first went otherwise."""

import re
from dataclasses import dataclass, replace

from beanpole.conformance.grade import Grade, grade_of, heads
from beanpole.conformance.names import CRLF, Frame, Id, Names, Part, Sentence, Stream, Tubes, expectation, shown
from beanpole.conformance.script import Script, Step, check_statistics
from beanpole.conformance.target import Target

SOMETHING = re.compile(r"^(?!keys: )([a-z-]+)(: | ~ ).*")
"""A line that wants a value of a statistic. On a server that others use, those of the whole server are anything."""

AGE = b"age"
"""The field of a frame that grows while a script is played in real time."""


@dataclass(frozen=True)
class Problem:
    """Where a conversation went otherwise than its script says."""

    script: Script
    line: int
    text: str
    sent: bytes = b""
    """What the connection was sent before."""

    expected: bytes = b""
    received: bytes = b""
    grade: Grade = Grade.LOST

    def __str__(self) -> str:
        return f"{self.script.path.name}:{self.line}: {self.text}"


class Run:
    """One run of a script against a target, with what each connection has been sent and has not been asked for yet.

    Without `names` the target is a fresh server, whose ids and tubes are those of the script. With `exact`, time stands
    still where the script does not let it pass, so that frames are compared byte by byte. With `may_quote`, names of
    tubes may stand in quotes in statistics, as those of beanstalkd 1.13 do.
    """

    def __init__(
        self,
        script: Script,
        target: Target,
        names: Names | None = None,
        *,
        exact: bool = False,
        may_quote: bool = False,
    ) -> None:
        self.script = script
        self.target = target
        self.names = names or Names(b"")
        self.exact = exact
        self.may_quote = may_quote
        self.received: dict[str, bytes] = {}
        self.streams: dict[str, Stream] = {}
        self.sent: dict[str, bytes] = {}
        """What each connection was sent last."""

    def outcome(self) -> Problem | None:
        """Run all steps; the first that fails ends the run."""
        for step in self.script.steps:
            if problem := self.step(step):
                return problem
        for name in self.received:
            if left := self.unexpected(name):
                return self.problem(None, name, f"at the end {name} has got {left!r}", received=left)
        return None

    def problem(self, step: Step | None, name: str, text: str, expected: bytes = b"", received: bytes = b"") -> Problem:
        """Return what went wrong at a step, or behind the last one."""
        line = (step or self.script.steps[-1]).line
        return Problem(self.script, line, text, self.sent.get(name, b""), expected, received)

    def due(self, step: Step) -> tuple[list[bytes], list[bytes]]:
        """Return the words of the replies that are due at a step, and of those that may have come as well.

        The latter are those for which the script has something else to do, but not on the same connection.
        """
        now: list[bytes] = []
        later: list[bytes] = []
        found = now
        for each in self.script.steps[self.script.steps.index(step) :]:
            if each.kind == "send" and each.name == step.name:
                break
            if each.kind == "expect" and each.name == step.name:
                found += heads(each.data)
            else:
                found = later
        return now, later

    def grade(self, step: Step) -> Grade:
        """Return how bad it is that replies are not as a step says, when all that come are there."""
        now, later = self.due(step)
        while len(heads(self.received[step.name])) < len(now) and self.fill(step.name):
            pass
        self.fill(step.name, expected=False)
        return grade_of(now, heads(self.received[step.name]), len(later))

    def step(self, step: Step) -> Problem | None:
        """Do one line of the script."""
        name = step.name
        if name and name not in self.received:
            self.received[name] = b""
            self.streams[name] = Stream()
            self.target.connect(name)
        if step.kind == "expect":
            return self.expect(name, step)
        if step.kind in {"silence", "is closed"}:
            return self.quiet(name, step)
        if step.kind == "send":
            self.sent[name] = self.names.sent(step.data, self.streams[name]) if self.names.prefix else step.data
            self.target.send(name, self.sent[name])
        elif step.kind == "half-closes":
            self.target.half_close(name)
        elif step.kind == "disconnects":
            self.target.disconnect(name)
            del self.received[name]
        elif step.kind == "advance":
            self.target.advance(step.seconds)
        elif step.kind == "drain":
            self.target.drain()
        return None

    def quiet(self, name: str, step: Step) -> Problem | None:
        """Make sure that a connection has got nothing more, and is closed if it must be."""
        if left := self.unexpected(name):
            _, later = self.due(step)
            early = heads(left)
            grade = Grade.ORDER if early == later[: len(early)] else Grade.LOST
            return replace(self.problem(step, name, f"{name} has got {left!r}", received=left), grade=grade)
        if step.kind == "is closed" and not self.target.is_closed(name):
            return self.problem(step, name, f"{name} is open")
        return None

    def expect(self, name: str, step: Step) -> Problem | None:
        """Read the next replies: those of the step, or statistics that fit."""
        if step.statistics:
            return self.expect_statistics(name, step)
        wanted: list[Part] = [step.data]
        if self.names.prefix or not self.exact:
            wanted = expectation(step.data, self.names)
        while True:
            got = self.received[name]
            ids: dict[int, int] = {}
            size = match(wanted, got, ids)
            if size is not None and size <= len(got) and self.names.learn(ids):
                self.received[name] = got[size:]
                return None
            if size is None or size <= len(got) or not self.fill(name):
                break
        text = f"wanted {step.data!r}, got {got!r}"
        return replace(self.problem(step, name, text, shown(wanted), got), grade=self.grade(step))

    def expect_statistics(self, name: str, step: Step) -> Problem | None:
        """Read statistics, and compare those that the step names."""
        wanted = [self.names.text(each.encode()).decode() for each in step.statistics]
        if self.names.prefix and self.sent[name] == b"stats\r\n":
            wanted = [SOMETHING.sub(r"\1 ~ .*", each) for each in wanted]
        while CRLF not in self.received[name] and self.fill(name):
            pass
        line, _, rest = self.received[name].partition(CRLF)
        word, _, digits = line.partition(b" ")
        text = f"wanted statistics, got {self.received[name]!r}"
        if word == b"OK" and digits.isdigit():
            size = len(line) + int(digits) + 4
            while len(self.received[name]) < size and self.fill(name):
                pass
            got, self.received[name] = self.received[name][:size], self.received[name][size:]
            text = check_statistics(got[len(line) + 2 : -2], wanted, may_quote=self.may_quote)
            grade, rest = Grade.WORDS, text.encode()
        else:
            grade, rest = self.grade(step), self.received[name]
        if not text:
            return None
        return replace(self.problem(step, name, text, "\n".join(["OK", *wanted]).encode(), rest), grade=grade)

    def fill(self, name: str, *, expected: bool = True) -> bool:
        """Receive more for a connection; false when nothing comes."""
        piece = self.target.more(name, expected=expected)
        self.received[name] += piece
        return bool(piece)

    def unexpected(self, name: str) -> bytes:
        """Return what a connection has got beyond what the script expected."""
        if not self.received[name]:
            self.fill(name, expected=False)
        return self.received[name]


def match(wanted: list[Part], got: bytes, ids: dict[int, int]) -> int | None:
    """Return how many bytes are what is wanted: more than there are if more must come, None if they are something else.

    `ids` is given the ids that were not known before.
    """
    at = 0
    for part in wanted:
        if at > len(got):
            break
        found = match_part(part, got, at, ids)
        if found is None:
            return None
        at = found
    return at


def match_part(part: Part, got: bytes, at: int, ids: dict[int, int]) -> int | None:
    """Return where a piece ends that begins at a place: behind `got` if more must come, None if it differs."""
    if isinstance(part, bytes):
        return at + len(part) if got[at : at + len(part)] == part[: len(got) - at] else None
    if isinstance(part, Tubes):
        return match_tubes(part, got, at)
    if isinstance(part, Id):
        end = at
        while end < len(got) and got[end : end + 1].isdigit():
            end += 1
        whole = end < len(got)
        return (end if is_id(got[at:end], part, ids) else None) if whole else max(end, at + 1)
    end = got.find(CRLF, at)
    if end < 0:
        return len(got) + 1
    if isinstance(part, Sentence):
        return end if end > at else None
    return end if is_frame(got[at:end], part, ids) else None


def match_tubes(part: Tubes, got: bytes, at: int) -> int | None:
    """Return where a list ends that has these tubes of ours; behind `got` if more must come, None if not."""
    line, end, rest = got[at:].partition(CRLF)
    word, _, digits = line.partition(b" ")
    if not end:
        return len(got) + 1
    if word != b"OK" or not digits.isdigit():
        return None
    listed = [each.removeprefix(b"- ") for each in rest[: int(digits)].splitlines()[1:]]
    ours = [name for name in listed if name.startswith(part.prefix)]
    if len(ours) < len(listed):  # Where tubes of others come and go, ours change places.
        ours = sorted(ours, key=lambda name: part.names.index(name) if name in part.names else -1)
    if len(rest) >= int(digits) and ours != part.names:
        return None
    return at + len(line) + 2 + int(digits)


def is_id(digits: bytes, part: bytes | Id, ids: dict[int, int]) -> bool:
    """Whether these are the digits of an id that is known, or of one that becomes known now."""
    if isinstance(part, bytes):
        return digits == part
    return digits.isdigit() and ids.setdefault(part.number, int(digits)) == int(digits)


def is_frame(line: bytes, part: Frame, ids: dict[int, int]) -> bool:
    """Whether a line is that of a frame: with these fields at least, in any order, and of a job that may be older."""
    words = line.split(b" ")
    fields = dict(word.split(b"=", 1) for word in words[3:] if b"=" in word)
    if words[0] != b"JOB" or len(words) < 3 or words[2] != b"%d" % part.size:
        return False
    if not is_id(words[1], part.id, ids):
        return False
    return all(
        fields.get(name) == value or (name == AGE and float(fields.get(name, b"-1")) >= float(value))
        for name, value in part.fields.items()
    )
