"""Names for a script on a server that is in use: its tubes get a prefix, and its ids are those that the server gave.

A script is written for a fresh server: its jobs are 1, 2, 3, and its tubes are ``t`` and ``default``. `Names` puts
others in their place, in what is sent and in what is expected, by what stands where on the lines of commands and
replies. An id that the script's jobs don't have becomes one that no server has given. So no script names anybody
else's job or tube, whatever it says.
"""

import re
from dataclasses import dataclass, field

from beanpole.limits import TUBE_NAME_BYTES_MAX
from beanpole.protocol.arguments import NAME_BYTES
from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES, Kind
from beanpole.protocol.limits import LINE_BYTES_MAX

CRLF = b"\r\n"
DEFAULT = b"default"
NOWHERE = 1 << 63
"""Ids from here on belong to no job of anybody."""

ISSUED = re.compile(rb"INSERTED (\d+)\r\n")
OF_A_JOB = re.compile(rb"((?:peek|reserve-job|delete|release|bury|kick-job|touch|stats-job) +)(\d+)(.*)", re.DOTALL)
OF_A_TUBE = re.compile(rb"((?:use|watch|ignore|stats-tube|pause-tube) *)(\S+)(.*)", re.DOTALL)
PUT = re.compile(rb"put +(\d+) +(\d+(?:\.\d{1,3})?) +(\d+) +(\d+)( *)(.*)", re.DOTALL)
DEAD = re.compile(rb"^(dead: *)(\S+)", re.MULTILINE)
NUMBER_MAX = (1 << 32) - 1
IN_A_LIST = re.compile(rb"^( *(?:- )?(?:(?:name|tube|dead|from|pattern): )?)([^ \n]+)$", re.MULTILINE)
PATTERN_IN_A_LIST = re.compile(rb'^(- )?pattern: "(.+)"$', re.MULTILINE)
LIST = re.compile(rb"---\n(?:- [^ :\n]+\n)+")
ID_IN_A_LIST = re.compile(rb"^(id: )(\d+)$", re.MULTILINE)

WITH_BODY = (b"OK", b"RESERVED", b"FOUND", b"JOB")
"""Replies whose line says how many bytes follow."""

WORDS = {verb: words for verb, words, _ in EXTENSIONS}
OPTIONS = {verb: {KIND_NAMES[kind]: kind for kind in options} for verb, _, options in EXTENSIONS}
SIZES = (Kind.BYTES, Kind.TEXT_BYTES, Kind.RULES_BYTES)
TUBES = (Kind.TUBE, Kind.TO, Kind.PATTERN, Kind.AFTER_TUBE, Kind.AFTER_PATTERN)
IDS = (Kind.ID, Kind.AFTER)


class OwnServerError(ValueError):
    """A script that can't be played on a server that is in use, and why."""


@dataclass(frozen=True)
class Id:
    """The id of a job, as the script calls it, in what is expected."""

    number: int


@dataclass(frozen=True)
class Frame:
    """The line of a JOB frame that is expected: it may have more fields, in any order, and the job may be older."""

    id: "bytes | Id"
    size: int
    fields: dict[bytes, bytes]


@dataclass(frozen=True)
class Tubes:
    """A list of tubes that is expected: ours have the prefix, and tubes of others may stand in between."""

    prefix: bytes
    names: list[bytes]


@dataclass(frozen=True)
class Sentence:
    """What is said to people: any words, up to the end of the line."""


Part = bytes | Id | Frame | Tubes | Sentence
"""A piece of what is expected."""


@dataclass
class Stream:
    """What a connection has been sent: the beginning of a line that has no end yet, and bytes of a body to come."""

    begun: bytes = b""
    body_left: int = 0


@dataclass
class Names:
    """The names of one run of a script."""

    prefix: bytes
    ids: dict[int, int] = field(default_factory=dict)
    issued: frozenset[int] = frozenset()
    """Ids that the script's own jobs get."""

    tubes: dict[bytes, bytes] = field(default_factory=dict)
    patterns: dict[bytes, bytes] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    """The lines that were sent, as the script says them, and those of rules."""

    body_bytes_max: int = 65535

    def tube(self, name: bytes) -> bytes:
        """Return our name for a tube; what can't be a name stays as it is."""
        if not is_name(name):
            return name
        room = max(0, len(self.prefix) + len(name) - TUBE_NAME_BYTES_MAX)
        return self.tubes.setdefault(name, self.prefix + name[room:])

    def pattern(self, text: bytes) -> bytes:
        """Return our pattern of tubes for one of the script."""
        if not text.endswith(b"*"):
            return self.tube(text)
        if not is_name(b"x" + text[:-1]):
            return text
        return self.patterns.setdefault(text, self.prefix + text)

    def id(self, number: int) -> int:
        """Return the server's id for one of the script's.

        Raises OwnServerError: the server has not said it yet.
        """
        if not self.prefix:
            return number
        if number in self.ids:
            return self.ids[number]
        if number in self.issued:
            raise OwnServerError(f"it names job {number} before a server can have said its id")
        return number if number == 0 or number >= NOWHERE else NOWHERE + number

    def learn(self, ids: dict[int, int]) -> bool:
        """Take over ids that the server has said; false if two jobs have one."""
        self.ids |= ids
        return len(set(self.ids.values())) == len(self.ids)

    # --- What is sent -------------------------------------------------------------------------------------------------

    def sent(self, data: bytes, stream: Stream) -> bytes:
        """Return what to send in place of what the script says, on a connection that has been sent what `stream` says.

        Raises OwnServerError: a name stands on a line that comes in pieces, or is not known yet.
        """
        out = []
        while data:
            if stream.body_left:
                out.append(data[: stream.body_left])
                data, stream.body_left = data[stream.body_left :], max(0, stream.body_left - len(data))
                continue
            line, end, rest = data.partition(CRLF)
            whole = stream.begun + line
            stream.begun = b"" if end else whole
            if end:
                self.lines.append(whole)
                size = self.body_bytes(whole)
                if whole.startswith(b"set-rules ") and len(rest) >= size > 0:
                    line, rest = self.with_rules(whole, rest, size)
                else:
                    stream.body_left = size
                    line = self.whole_line(whole, line)
            out += [line, end]
            data = rest
        return b"".join(out)

    def whole_line(self, whole: bytes, last: bytes) -> bytes:
        """Return what to send for a line, whose last piece this is."""
        changed = self.line(whole)
        if whole not in {changed, last}:
            raise OwnServerError("a line with a name on it comes in pieces")
        if len(changed) + 2 > LINE_BYTES_MAX >= len(whole) + 2 and whole.partition(b" ")[0] not in WORDS:
            raise OwnServerError("a line is as long as it may be")
        return last if changed == whole else changed

    def line(self, line: bytes) -> bytes:
        """Return our line for a command of the script."""
        verb, _, rest = line.partition(b" ")
        if verb in WORDS:
            return b" ".join([verb, *self.words(verb, rest.split(b" "))]) if rest else line
        if found := OF_A_JOB.fullmatch(line):
            return found[1] + b"%d" % self.id(int(found[2])) + found[3]
        if (found := OF_A_TUBE.fullmatch(line)) and is_name(found[2]):
            return found[1] + self.tube(found[2]) + found[3]
        return line

    def words(self, verb: bytes, words: list[bytes]) -> list[bytes]:
        """Return the words and options of an extension with our names."""
        kinds = list(WORDS[verb])
        if kinds and kinds[-1] == Kind.IDS:
            kinds += [Kind.ID] * len(words)
        changed = []
        for place, word in enumerate(words):
            name, equals, value = word.partition(b"=")
            if equals and name in OPTIONS[verb]:
                changed.append(name + b"=" + self.argument(OPTIONS[verb][name], value))
            else:
                changed.append(self.argument(kinds[place], word) if place < len(kinds) else word)
        return changed

    def argument(self, kind: Kind, value: bytes) -> bytes:
        """Return our value for an argument."""
        if kind in TUBES:
            return self.pattern(value)
        if kind in {*IDS, Kind.IDS} and value.isdigit():
            return b"%d" % self.id(int(value))
        return value

    def with_rules(self, line: bytes, rest: bytes, size: int) -> tuple[bytes, bytes]:
        """Return the line of a set-rules and what follows, where the rules may name a tube."""
        self.lines += [b"rule." + each for each in rest[: size - 2].splitlines()]
        rules = self.rules(rest[: size - 2]) + rest[size - 2 : size]
        words = self.line(line).split(b" ")
        words[2] = b"%d" % (len(rules) - 2)
        return b" ".join(words), rules + rest[size:]

    def rules(self, text: bytes) -> bytes:
        """Return rules with our name of the tube for the dead."""
        return DEAD.sub(lambda found: found[1] + self.tube(found[2]), text)

    def body_bytes(self, line: bytes) -> int:
        """Return how many bytes behind a line are not read as commands."""
        verb, _, rest = line.partition(b" ")
        for kind, word in zip(WORDS.get(verb, ()), rest.split(b" "), strict=False):
            if kind in SIZES and word.isdigit():
                return int(word) + 2
        found = PUT.fullmatch(line)
        if not found or any(int(found[place].partition(b".")[0]) > NUMBER_MAX for place in (1, 2, 3, 4)):
            return 0
        size = int(found[4])
        return size + 2 if not found[5] + found[6] or size > self.body_bytes_max else 0

    # --- What is expected ---------------------------------------------------------------------------------------------

    def text(self, body: bytes) -> bytes:
        """Return a list or a mapping with our names; only names that the script has used are names there."""
        body = IN_A_LIST.sub(lambda found: found[1] + self.tubes.get(found[2], found[2]), body)
        known = self.tubes | self.patterns
        body = PATTERN_IN_A_LIST.sub(
            lambda found: b'%spattern: "%s"' % (found[1] or b"", known.get(found[2], found[2])), body
        )
        return ID_IN_A_LIST.sub(lambda found: found[1] + b"%d" % self.ids.get(int(found[2]), int(found[2])), body)

    def body(self, text: bytes) -> Part:
        """Return what a list or a mapping is with our names, and its line."""
        text = self.text(text)
        if self.prefix and LIST.fullmatch(text):
            return Tubes(self.prefix, [line[2:] for line in text.splitlines()[1:]])
        return b"OK %d\r\n" % len(text) + text

    def wanted(self, number: bytes) -> bytes | Id:
        """Return the id that stands in a reply."""
        known = int(number) in self.ids or int(number) not in self.issued or not self.prefix
        return b"%d" % self.id(int(number)) if known else Id(int(number))


def is_name(text: bytes) -> bool:
    """Whether this can be the name of a tube."""
    return 0 < len(text) <= TUBE_NAME_BYTES_MAX and text[:1] != b"-" and not text.strip(NAME_BYTES)


def expectation(data: bytes, names: Names) -> list[Part]:
    """Return the pieces of what replies must be: bytes, and ids and frames, of which more than one can be right."""
    parts: list[Part] = []
    while data:
        line, end, data = data.partition(CRLF)
        words = line.split(b" ")
        has_body = len(words) > 1 and words[0] in WITH_BODY and words[min(2, len(words) - 1)].isdigit()
        size = int(words[min(2, len(words) - 1)]) if has_body else 0
        if words[0] == b"OK" and has_body:
            parts += [names.body(data[:size]), CRLF]
        else:
            parts += [*first_line(words, names), end, data[: size + 2 * has_body]]
        data = data[size + 2 * has_body :]
    return parts


def first_line(words: list[bytes], names: Names) -> list[Part]:
    """Return the pieces of the line of a reply."""
    parts: list[Part] = [b" ".join(words)]
    match words:
        case [b"RESERVED" | b"FOUND" as word, number, digits]:
            parts = [word + b" ", names.wanted(number), b" " + digits]
        case [b"JOB", number, digits, *fields] if digits.isdigit():
            parts = [frame(number, digits, fields, names)]
        case [b"INSERTED" | b"EXISTS" | b"REPLACED" as word, number]:
            parts = [word + b" ", names.wanted(number)]
        case [b"JOBS", count, last] if last.startswith(b"next="):
            parts = [b"JOBS " + count + b" next=", names.wanted(last[5:])]
        case [b"DELETED" | b"TOUCHED" as word, count, *numbers]:
            ids = [[b" ", names.wanted(number)] for number in numbers]
            parts = [word + b" " + count, *(part for pair in ids for part in pair)]
        case [b"BAD_RULES", number, *_]:
            parts = [b"BAD_RULES " + number + b" ", Sentence()]
        case [b"USING", tube] if names.prefix:
            parts = [b"USING " + names.tube(tube)]
    return parts


def frame(number: bytes, size: bytes, words: list[bytes], names: Names) -> Frame:
    """Return the line of a JOB frame."""
    fields = dict(word.split(b"=", 1) for word in words)
    for name in fields.keys() & {b"tube", b"from"}:
        fields[name] = names.tubes.get(fields[name], fields[name])
    return Frame(names.wanted(number), int(size), fields)


def shown(parts: list[Part]) -> bytes:
    """Return what is expected as a person reads it."""
    return b"".join(shown_part(part) for part in parts)


def shown_part(part: Part) -> bytes:
    """Return a piece of what is expected as a person reads it."""
    if isinstance(part, bytes):
        return part
    if isinstance(part, Id):
        return b"<id>"
    if isinstance(part, Sentence):
        return b"<why>"
    if isinstance(part, Tubes):
        return b"OK <bytes>\r\n---\n" + b"".join(b"- %s\n" % name for name in part.names)
    fields = [name + b"=" + value for name, value in part.fields.items()]
    return b" ".join([b"JOB", shown_part(part.id), b"%d" % part.size, *fields])
