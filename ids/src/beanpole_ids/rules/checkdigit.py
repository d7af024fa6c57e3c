"""Check digits: characters at the end of a number that reveal most mistakes in typing it.

Each is computed from certain characters and ignores all others, so a prefix does no harm. It depends only on the text
before it and has a fixed width, so it never makes two different numbers equal.

- ``luhn``: ISO/IEC 7812; one digit. Finds single wrong digits and most swapped neighbours.
- ``damm``: Damm, 2004; one digit. Finds all single wrong digits and all swapped neighbours.
- ``iso7064-11-10``, ``iso7064-37-36``: hybrid systems of ISO 7064; one digit, or one digit or letter.
- ``iso7064-97-10``: the pure system of ISO 7064 that bank accounts have; two digits, over digits and letters.
"""

import string
from collections.abc import Callable, Mapping

DIGITS = string.digits
ALPHANUMERIC = string.digits + string.ascii_uppercase

DAMM_TABLE = (  # the totally anti-symmetric quasigroup of order 10 that Damm gives
    "0317598642", "7092154863", "4206871359", "1750983426", "6123045978",
    "3674209581", "5869720134", "8945362017", "9438617205", "2581436790",
)  # fmt: skip


def luhn(text: str) -> str:
    total = 0
    for place, character in enumerate(reversed([each for each in text if each in DIGITS])):
        value = int(character) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def damm(text: str) -> str:
    interim = 0
    for character in text:
        if character in DIGITS:
            interim = int(DAMM_TABLE[interim][int(character)])
    return str(interim)


def hybrid(alphabet: str) -> Callable[[str], str]:
    """Return the hybrid system of ISO 7064 over an alphabet of M characters, modulus M + 1 and M."""
    size = len(alphabet)

    def check(text: str) -> str:
        product = size
        for character in text:
            if character in alphabet:
                total = (product + alphabet.index(character)) % size
                product = (total or size) * 2 % (size + 1)
        return alphabet[(size + 1 - product) % size]

    return check


def mod_97_10(text: str) -> str:
    digits = "".join(str(ALPHANUMERIC.index(each)) for each in text if each in ALPHANUMERIC)
    return f"{98 - int((digits or '0') + '00') % 97:02}"


CHECKS: Mapping[str, tuple[Callable[[str], str], str]] = {
    "luhn": (luhn, DIGITS),
    "damm": (damm, DIGITS),
    "iso7064-11-10": (hybrid(DIGITS), DIGITS),
    "iso7064-37-36": (hybrid(ALPHANUMERIC), ALPHANUMERIC),
    "iso7064-97-10": (mod_97_10, ALPHANUMERIC),
}
"""By the name that a rule gives: what makes them, and the characters in which it finds mistakes."""
