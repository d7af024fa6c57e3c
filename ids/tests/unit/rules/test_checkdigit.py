"""Check digits of alphabets: what they don't look at is refused."""

import string
from zoneinfo import ZoneInfo

import pytest

from beanpole_ids.errors import RuleError
from beanpole_ids.rules.checkdigit import CHARACTERS, CHECKS
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.template import Template

NEVER = Cycle("never", 0, ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("check", "alphabet", "blind"),
    [
        ("luhn", "ABCDEF", "ABCDEF"),
        ("luhn", "0123456789ABCDEF", "ABCDEF"),
        ("damm", "ABCDEF", "ABCDEF"),
        ("iso7064-11-10", "0123456789X", "X"),
        ("iso7064-37-36", "0123456789abc", "abc"),
        ("iso7064-97-10", "0123456789Bé", "é"),
    ],
)
def test_alphabet_that_it_does_not_look_at_is_refused(check: str, alphabet: str, blind: str) -> None:
    """Its digits were the same for all numbers."""
    with pytest.raises(RuleError, match=f"{check} does not look at '{blind}'"):
        Template("N{counter:03}", NEVER, 9, alphabet, check)


@pytest.mark.parametrize("check", CHECKS)
def test_each_character_that_it_looks_at_counts(check: str) -> None:
    made, _ = Template("é{counter:01}", NEVER, 9, CHARACTERS[check], check).make(0, 10, 10, 0, b"")
    assert len({each[2:] for each in made}) == 10
    assert set(CHARACTERS[check]) >= set(string.digits)
    assert CHARACTERS.keys() == CHECKS.keys()
