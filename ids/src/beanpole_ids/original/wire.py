"""JSON as the original reads and writes it: requests are echoed, so what comes in must go out the same.

Beyond JSON it takes comments, control characters within strings, bytes that are not UTF-8, and text after the object.
The last of equal keys wins; keys go out in byte order. Strings end at a NUL. What is whole is written without a
fraction; integers are exact up to 64 bits, beyond that all numbers have 16 digits.

Almost every request is a flat object of strings and integers in plain JSON. orjson reads and writes those, many times
faster; it refuses or is not asked what the original reads in another way, and that goes through the standard library.
"""

import json
import re
from typing import Any, NoReturn

import orjson

from beanpole_ids import limits

COMMENT = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|/\*.*?(?:\*/|\Z)|//[^\n]*', re.DOTALL)
"""A string, which stays, or a comment. What is not closed goes to the end, so that nothing is read twice."""

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[][{}]', re.DOTALL)
"""A string, or what begins or ends a level. What is not closed goes to the end, as above."""

CLOSED_BY = {"[": "]", "{": "}"}

LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # half a pair of UTF-16, which ``\ud800`` gives and UTF-8 can't say
WHOLE_MAX = 2**64 - 1  # the largest exact integer; the least is ``-2**63``


class TooDeepError(ValueError):
    """An object has values within values within values, more than `limits.DEPTH_MAX`.

    Such a one could be read and not written: both take a part of the stack for each level. `plain` is what it has
    besides lists and objects, which goes into the answer.
    """

    def __init__(self, plain: dict[str, Any]) -> None:
        super().__init__(f"the request is nested deeper than {limits.DEPTH_MAX}")
        self.plain = plain


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are no JSON."""
    raise ValueError(f"{name} is not a JSON number")


FLAT = frozenset({str, int, bool, type(None)})
"""Values that orjson reads as we do. A number that it can't hold becomes a float of it, and is no such value."""


class Decimal16(float):
    """A number of a request that is not whole. orjson refuses to write it, for it would write other digits."""


def to_float(text: str) -> float | int:
    """Return a number with 16 digits, as an integer if it is one."""
    value = Decimal16(format(float(text), ".16g"))
    if value in {float("inf"), float("-inf")}:
        raise ValueError(f"{text} is too large")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def to_whole(text: str) -> float | int:
    """Return an integer, or a float if it has more than 64 bits."""
    value = int(text) if len(text) <= 20 else None
    return value if value is not None and -(2**63) <= value <= WHOLE_MAX else to_float(text)


DECODER = json.JSONDecoder(parse_float=to_float, parse_int=to_whole, parse_constant=refuse_constant, strict=False)
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def cut_at_nul(value: Any) -> Any:  # noqa: ANN401 - any value of JSON, and the same kind comes out
    """Return a value with all its strings cut at their first NUL."""
    if isinstance(value, str):
        return value.partition("\0")[0]
    if isinstance(value, list):
        return [cut_at_nul(each) for each in value]
    if isinstance(value, dict):
        return {cut_at_nul(key): cut_at_nul(each) for key, each in value.items()}
    return value


def parse(data: bytes) -> dict[str, Any] | None:
    """Return the object with which a datagram begins; None if there is none, whatever the datagram is.

    Raises TooDeepError: it is nested too deep.
    """
    if data[:1] != b"{":
        return None
    try:
        flat: dict[str, Any] = orjson.loads(data)
        if FLAT.issuperset(map(type, flat.values())) and b"\\u0000" not in data:
            return flat
    except ValueError:
        pass  # not plain JSON, or none
    return parse_any(data)


def parse_any(data: bytes) -> dict[str, Any] | None:
    """Do what `parse` does, for whatever begins with a brace."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        try:
            found, is_deep = decode(text)
        except ValueError:
            if "/" not in text:
                return None
            found, is_deep = decode(COMMENT.sub(lambda match: match[1] or " ", text))
        if "\0" in text or "\\u0000" in text:
            found = cut_at_nul(found)
    except ValueError:
        return None
    assert isinstance(found, dict), "what begins with a brace is an object"
    if is_deep:
        raise TooDeepError({key: value for key, value in found.items() if not isinstance(value, dict | list)})
    return found


def decode(text: str) -> tuple[Any, bool]:
    """Return the value with which a text begins, and whether it is nested too deep; it then lacks what is deepest."""
    shallow = text
    if text.count("[") + text.count("{") > limits.DEPTH_MAX:
        shallow = without_depths(text)
    return DECODER.raw_decode(shallow)[0], shallow is not text


def without_depths(text: str) -> str:
    """Return a text with an empty list for each value that is nested too deep; the same text if none is.

    Raises ValueError: what begins is not ended.
    """
    kept: list[str] = []
    open_: list[str] = []
    end = 0
    for match in TOKEN.finditer(text):
        sign = match[0]
        if sign in CLOSED_BY:
            open_.append(CLOSED_BY[sign])
            if len(open_) == limits.DEPTH_MAX + 1:
                kept.append(text[end : match.start()])
        elif sign in "]}":
            if open_.pop() != sign:
                raise ValueError("a bracket is closed by one of the other kind")
            if len(open_) == limits.DEPTH_MAX:
                kept.append("[]")
                end = match.end()
            if not open_:
                break  # whatever follows the object is of no interest
    if len(open_) > limits.DEPTH_MAX:
        raise ValueError("a bracket is not closed")
    return "".join([*kept, text[end:]]) if kept else text


def render(reply: object) -> bytes:
    """Return a value as compact JSON, keys in order."""
    try:
        return orjson.dumps(reply, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return render_any(reply)


def render_any(reply: object) -> bytes:
    """Do what `render` does, for whatever a request may hold."""
    text = ENCODER.encode(reply)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return LONE.sub("\N{REPLACEMENT CHARACTER}", text).encode("utf-8", "surrogateescape")
