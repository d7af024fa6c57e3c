"""Reads a grammar in ABNF, as far as docs/protocol.md needs it: patterns of its rules, and sentences by chance.

A grammar is a mapping of names to alternatives; an alternative is a list of items, each with how often it may stand.
"""

import random
import re
from dataclasses import dataclass

TOKEN = re.compile(
    r'"(?P<text>[^"]*)"|%x(?P<low>[0-9A-F]+)(?:-(?P<high>[0-9A-F]+))?|(?P<name>[A-Za-z][\w-]*)|(?P<sign>[()\[\]/])|(?P<times>\d*\*\d*)'
)
CORE = {
    "SP": "%x20",
    "CRLF": "%x0D %x0A",
    "CR": "%x0D",
    "LF": "%x0A",
    "WSP": "%x20 / %x09",
    "DIGIT": "%x30-39",
    "ALPHA": "%x41-5A / %x61-7A",
    "OCTET": "%x00-FF",
}
MORE = 4
"""How many more than it must a thing is repeated in a sentence, at most."""


@dataclass(frozen=True)
class Range:
    """Any byte from one to another."""

    low: int
    high: int


@dataclass(frozen=True)
class Item:
    """What may stand `least` to `most` times: bytes of a range, a text, the name of a rule, or alternatives."""

    what: "bytes | Range | str | list[list[Item]]"
    least: int = 1
    most: int | None = 1


class Grammar:
    """A grammar; `text` is the block of a page."""

    def __init__(self, text: str) -> None:
        lines = [line.partition(" ;")[0] for line in text.splitlines()]
        joined = re.sub(r"\n +", " ", "\n".join(lines))
        rules = dict(re.split(r" *= *", line, maxsplit=1) for line in joined.splitlines() if line.strip())
        self.rules = {name: self._read(definition) for name, definition in (CORE | rules).items()}
        self.own = set(rules)

    def _read(self, definition: str) -> list[list[Item]]:
        tokens = list(TOKEN.finditer(definition))
        assert "".join(found[0] for found in tokens) == definition.replace(" ", ""), f"can't read {definition!r}"
        alternatives, rest = self._alternatives(tokens)
        assert not rest, definition
        return alternatives

    def _alternatives(self, tokens: "list[re.Match[str]]") -> "tuple[list[list[Item]], list[re.Match[str]]]":
        alternatives: list[list[Item]] = [[]]
        while tokens and tokens[0][0] not in {")", "]"}:
            found, *tokens = tokens
            if found[0] == "/":
                alternatives.append([])
                continue
            least = 1
            most: int | None = 1
            if found["times"]:
                low, _, high = found["times"].partition("*")
                least, most = int(low or 0), int(high) if high else None
                found, *tokens = tokens
            what: bytes | Range | str | list[list[Item]]
            if found[0] in {"(", "["}:
                least = 0 if found[0] == "[" else least
                what, tokens = self._alternatives(tokens)
                tokens = tokens[1:]
            elif found["low"]:
                what = Range(int(found["low"], 16), int(found["high"] or found["low"], 16))
            else:
                what = found["name"] or found["text"].encode()
            alternatives[-1].append(Item(what, least, most))
        return alternatives, tokens

    def pattern(self, name: str) -> str:
        """Return a regular expression for a rule, of latin-1 text; a body is anything."""
        return "|".join("".join(map(self._pattern, items)) for items in self.rules[name])

    def _pattern(self, item: Item) -> str:
        match item.what:
            case bytes(text):
                one = re.escape(text.decode())
            case Range(low, high):
                one = f"[\\x{low:02x}-\\x{high:02x}]"
            case "body":
                one = "(?s:.*)"
            case str(name):
                one = self.pattern(name)
            case list(alternatives):
                one = "|".join("".join(map(self._pattern, items)) for items in alternatives)
        return f"(?:{one}){{{item.least},{'' if item.most is None else item.most}}}"

    def sentence(self, name: str, chance: random.Random, sizes: dict[str, bytes]) -> bytes:
        """Return what a rule allows; `sizes` says what stands for some rules."""
        if name in sizes:
            return sizes[name]
        return b"".join(self._sentence(item, chance, sizes) for item in chance.choice(self.rules[name]))

    def _sentence(self, item: Item, chance: random.Random, sizes: dict[str, bytes]) -> bytes:
        most = item.least + MORE if item.most is None else min(item.most, item.least + MORE)
        said = []
        for _ in range(chance.randint(item.least, most)):
            match item.what:
                case bytes(text):
                    said.append(text)
                case Range(low, high):
                    said.append(bytes([chance.randint(low, high)]))
                case str(name):
                    said.append(self.sentence(name, chance, sizes))
                case list(alternatives):
                    said += [self._sentence(each, chance, sizes) for each in chance.choice(alternatives)]
        return b"".join(said)
