"""The grammar of docs/protocol.md is what the decoder reads, and what servers reply."""

import random
import re
from itertools import product
from pathlib import Path

import pytest

from beanpole.conformance.script import SCRIPTS, read_script
from beanpole.errors import RulesError
from beanpole.protocol.commands import Verb
from beanpole.protocol.decoder import Decoder
from beanpole.protocol.extensions import ACCESS_FORMATS, EXTENSIONS, FORMAT_NEWEST, KIND_NAMES
from beanpole.protocol.rules import RULES, parse, read_line
from beanpole.schedules.document import LINES
from tests.grammar import Grammar

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "protocol.md").read_text()
GRAMMAR = Grammar(re.findall(r"^```abnf\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0])
VERBS = [verb.decode() for verb, _, _ in EXTENSIONS]
BODY = b"delete 1\r\nquit"
SENTENCES = 200
"""Of each command."""


def test_every_extension_and_option_is_there() -> None:
    (alternatives,) = zip(*GRAMMAR.rules["command"], strict=True)
    assert {each.what for each in alternatives} == set(VERBS)
    for verb, _, options in EXTENSIONS:
        said = {option.decode() for option in re.findall(rb"([a-z]+)=", pattern_of(verb.decode()))}
        assert said == {KIND_NAMES[kind].decode() for kind in options}, verb


def pattern_of(verb: str) -> bytes:
    return GRAMMAR.pattern(verb).replace("\\", "").encode("latin-1")


@pytest.mark.parametrize("verb", VERBS)
def test_the_decoder_reads_what_the_grammar_says(verb: str) -> None:
    chance = random.Random(verb)
    said = {"size": b"%d" % len(BODY), "body": BODY + b"\r\n"}
    for _ in range(SENTENCES):
        count = b"%d" % chance.randint(1, 1000)
        number, wait = b"%d" % chance.randrange(1 << 31), b"%d" % chance.randint(0, 600)
        numbers = {"count": count, "number": number, "wait": wait, "span": b"%d" % chance.randint(1, 86_400)}
        line = GRAMMAR.sentence(verb, chance, said | numbers)
        words = line.partition(b"\r\n")[0].split(b" ")[1:]
        names = [word.partition(b"=")[0] for word in words if b"=" in word]
        decoder = Decoder(len(BODY), FORMAT_NEWEST | sum(ACCESS_FORMATS.values()))
        decoder.receive(line + b"stats\r\n")
        command = decoder.next_command()
        assert command is not None, line
        listed = b"".join(re.findall(rb"fields=(\S+)", line)).split(b",")
        twice = len(set(names)) < len(names) or len(set(listed)) < len(listed)
        assert command.verb == (Verb.BAD_FORMAT if twice or verb == "auth" else Verb[verb.upper().replace("-", "_")]), (
            line
        )
        behind = decoder.next_command()
        assert behind is not None
        assert behind.verb == Verb.STATS, line


def verb_of(line: bytes) -> Verb:
    decoder = Decoder(len(BODY))
    decoder.receive(line + b"\r\n")
    command = decoder.next_command()
    assert command is not None, line
    return command.verb


def test_the_states_of_clear_tube_are_each_there_once() -> None:
    pattern = re.compile(GRAMMAR.pattern("clear-tube"))
    for count in range(5):
        for states in product(["ready", "delayed", "buried"], repeat=count):
            line = " ".join(["clear-tube", "a", *states])
            verb = Verb.CLEAR_TUBE if pattern.fullmatch(f"{line}\r\n") else Verb.BAD_FORMAT
            assert verb_of(line.encode()) == verb, line


@pytest.mark.parametrize(
    ("name", "line"), [("count", "reserve-many {} 0 group=same"), ("timeout", "reserve-many 1 {}")]
)
def test_numbers_have_the_ranges_that_the_grammar_says(name: str, line: str) -> None:
    [(low, high)] = re.findall(rf"^{name} += .*; (\d+) to (\d+)$", PAGE, re.MULTILINE)
    for number in (low, high):
        assert verb_of(line.format(number).encode()) == Verb.RESERVE_MANY
    beyond = [int(low) - 1, int(high) + 1, f"{high}.001"]
    assert {verb_of(line.format(number).encode()) for number in beyond} == {Verb.BAD_FORMAT}


def test_rules_are_read_as_the_grammar_says() -> None:
    chance = random.Random(1)
    seen = set()
    for _ in range(20 * SENTENCES):
        said = {"positive": b"%d" % chance.randint(1, 1000), "interval": b"%d.25" % chance.randrange(1000)}
        said["weight"] = said["positive"]
        said |= {"factor": b"%d.5" % chance.randint(1, 999), "share": b"%d" % chance.randint(1, 100)}
        text = GRAMMAR.sentence("line", chance, said | {"tube": b"t"})
        name, _, words = text.partition(b":")
        if any(words.split().count(word) > 1 for word in (b"factor", b"max")):
            with pytest.raises(RulesError):
                parse(text)
            continue
        besides = b"backoff: 1\n" * (name.strip() == b"breaker")
        assert parse(text + b"\n" + besides).text.removeprefix(besides).split(b":")[0] == name.strip(), text
        seen.add(name.strip().decode())
    assert seen == {*RULES, ""}


def test_the_lines_of_schedules_are_read_as_the_grammar_says() -> None:
    chance = random.Random(2)
    seen = set()
    fields = {"minutes": b"1,5-9", "hours": b"*/2", "days": b"L", "months": b"JAN-MAR", "weekdays": b"FRI#2"}
    times = {"date": b"2028-02-29", "time": b"2028-02-29T02:30:00.5+01:00", "tube": b"t", "part": b"-x_1"}
    for _ in range(5 * SENTENCES):
        said = {"positive": b"%d" % chance.randint(1, 500), "seconds": b"%d.25" % chance.randrange(1, 80_000)}
        text = GRAMMAR.sentence("header", chance, said | fields | times | {"interval": b"7"})
        name, found = read_line(text, LINES, (), "line")
        assert found, text
        seen.add(name)
    assert seen == set(LINES)


def test_the_replies_of_scripts_are_replies_of_the_grammar() -> None:
    reply = re.compile(f"(?:{GRAMMAR.pattern('reply')}|{GRAMMAR.pattern('frame')})+")
    words = re.compile(
        r"(JOBS?|EXISTS|REPLACED|CLEARED|MOVED|CHANGED|DELETED \d|TOUCHED \d|CANCELLED|NOT_WAITING"
        r"|SCHEDULE[SD]?|BAD_SCHEDULE|PAUSED|DROPPED) ?"
    )
    found = set()
    for script in map(read_script, SCRIPTS):
        if script.settings.get("not beanstalkd") != "extension":
            continue
        for step in script.steps:
            text = step.data.decode("latin-1")
            if step.kind == "expect" and words.match(text):
                assert reply.fullmatch(text), f"{script.path.name}:{step.line}: {text!r}"
                found.add(text.split()[0])
    assert found >= {
        "JOBS",
        "JOB",
        "EXISTS",
        "REPLACED",
        "CLEARED",
        "MOVED",
        "CHANGED",
        "DELETED",
        "CANCELLED",
        "SCHEDULES",
        "SCHEDULE",
    }
