"""A job's body as people read it: as JSON, text, hex or base64.

What comes out is text that a template escapes. Characters that would not be seen, or that turn round what follows, are
written as what they are called, so that nobody is shown something else than a worker gets.
"""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beanpole.console import limits

BODY_TEXT_CHARS = 49_152
"""Characters of a body that a page shows: escaped, they are no more than 250 kB, and the page no more than 300 kB."""

HEX_BYTES = 8_192  # bytes of a body that a page shows as hex, in five times as many characters
JSON_LEVELS = 64  # levels of nesting at which a body is no longer read as JSON
KINDS = ("json", "text", "hex", "base64")  # the ways to show a body

ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), 0x7F) if code not in (0x09, 0x0A)} | {0x0D: "\\r"}
"""Control characters as programs write them; a tab and the end of a line are what they are."""

CALLED = re.compile(
    "[\x80-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What is not seen, or changes the direction: written by its number."""

STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
STRINGS = re.compile(STRING, re.DOTALL)
NO_BRACKETS = re.compile(r"[^\[\]{}]+")
TOKENS = re.compile(rf"{STRING}|[\[\]{{}},:]|[^\s\[\]{{}},:\"]+", re.DOTALL)


def visible(text: str) -> str:
    """A text all of whose characters can be seen, but for spaces, tabs and the ends of lines."""
    return CALLED.sub(lambda found: f"[U+{ord(found[0]):04X}]", text.translate(ESCAPED))


def preview(body: bytes) -> str:
    """How a body begins, on one line."""
    text = body[: limits.BODY_SHOWN_BYTES].decode("utf-8", "replace")
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


@dataclass(frozen=True, slots=True)
class Shown:
    """A body, or its beginning, in one of the ways."""

    kind: str  # one of KINDS
    text: str
    kinds: tuple[str, ...]  # the ways in which it can be shown
    is_cut: bool  # whether there is more of it
    notes: tuple[str, ...] = ()  # what to know of it, each a sentence


def shown(body: bytes, size: int, kind: str = "") -> Shown:
    """Shows a body of which `body` is the beginning and `size` the number of bytes.

    Without a kind, or with one in which it can't be shown, the best is taken.
    """
    text, is_text = text_of(body, is_whole=len(body) == size)
    pretty, why_not = pretty_json(text) if is_text and len(body) == size else (None, "")
    if size > limits.JSON_BYTES_MAX and text.lstrip()[:1] in ("[", "{"):
        why_not = "It is too long to be shown as JSON."
    kinds = tuple(each for each in KINDS if each != "json" or pretty is not None)
    if kind not in kinds:
        kind = kinds[0] if is_text or b"\0" not in body[:HEX_BYTES] else "hex"
    notes = [] if is_text or kind != "text" else ["It is not UTF-8: other bytes are shown as \\x and two digits."]
    if why_not and kind == "text":
        notes.append(why_not)
    if kind == "hex":
        return Shown(kind, "\n".join(hex_lines(body[:HEX_BYTES])), kinds, size > HEX_BYTES)
    if kind == "base64":
        most = BODY_TEXT_CHARS // 4 * 3
        return Shown(kind, base64.b64encode(body[:most]).decode(), kinds, size > most)
    begun = (pretty if kind == "json" and pretty is not None else text)[: BODY_TEXT_CHARS + 1]
    seen = visible(begun)
    is_cut = len(seen) > BODY_TEXT_CHARS or len(body) < size
    return Shown(kind, seen[:BODY_TEXT_CHARS], kinds, is_cut, tuple(notes))


def text_of(body: bytes, *, is_whole: bool) -> tuple[str, bool]:
    """A body as text, and whether it is UTF-8. The last character of a beginning may be cut."""
    for cut in range(1 if is_whole else 4):
        try:
            return body[: len(body) - cut].decode(), True
        except UnicodeDecodeError:
            continue
    return body[: BODY_TEXT_CHARS + 1].decode("utf-8", "backslashreplace"), False


def hex_lines(body: bytes) -> Iterator[str]:
    """Bytes as numbers, and beside them what is ASCII, as `hexdump -C` has them."""
    for at in range(0, len(body), 16):
        line = body[at : at + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        yield f"{at:08x}  {line[:8].hex(' '):23}  {line[8:].hex(' '):23}  |{letters}|"


# --- JSON -------------------------------------------------------------------------------------------------------------


def pretty_json(text: str) -> tuple[str | None, str]:
    """The beginning of a JSON text with a line for each value, all values as they are written; None: it is none.

    The second says why what may be JSON is not shown so. Reading it does not build on how deep it is, and of numbers
    no values are made.
    """
    if len(text) > limits.JSON_BYTES_MAX or not text.lstrip()[:1] or text.lstrip()[0] not in '[{"':
        return None, ""
    depth = depth_of(text)
    if depth is None:
        return None, ""
    if depth >= JSON_LEVELS:
        return None, f"It is nested {JSON_LEVELS} levels deep or more, and is not read as JSON."
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=no_constant)
    except ValueError:
        return None, ""
    return "".join(pretty_tokens(text)), ""


def no_constant(word: str) -> Any:  # noqa: ANN401 - what json.loads wants
    """Refuses NaN and Infinity, which are no JSON."""
    raise ValueError(word)


def depth_of(text: str) -> int | None:
    """How deep lists and objects are nested, at most JSON_LEVELS; None: the brackets do not fit together.

    The innermost pairs are taken away again and again, so that the work is bounded by the levels.
    """
    left = NO_BRACKETS.sub("", STRINGS.sub("", text)).translate({ord("{"): "[", ord("}"): "]"})
    for depth in range(JSON_LEVELS):
        if not left:
            return depth
        fewer = left.replace("[]", "")
        if len(fewer) == len(left):
            return None
        left = fewer
    return JSON_LEVELS


def pretty_tokens(text: str) -> Iterator[str]:
    """The pieces of a JSON text with spaces and new lines between, until they are as long as is shown."""
    depth = length = 0
    before = ""
    for found in TOKENS.finditer(text):
        token = found[0]
        is_end = token in ("]", "}")
        depth -= is_end
        if token in (",", ":") or before == "" or (is_end and before in ("[", "{")):
            piece = token
        elif before == ":":
            piece = f" {token}"
        else:
            piece = f"\n{'  ' * depth}{token}"
        depth += token in ("[", "{")
        before = token
        length += len(piece)
        yield piece
        if length > BODY_TEXT_CHARS:
            return
