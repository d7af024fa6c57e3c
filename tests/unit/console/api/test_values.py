"""Values of JSON checked by types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from beanpole.console.api.kinds import Form, Length, Range, schema_of
from beanpole.console.api.values import WrongError, checked, from_text, plain


@dataclass(frozen=True)
class Inner:
    """A thing inside another."""

    word: Literal["a", "b"]


@dataclass(frozen=True)
class Outer:
    """A thing.

    More about it.
    """

    count: Annotated[int, Range(1, 9), "How many."]
    ids: Annotated[list[Annotated[int, Range(1, 5)]], Length(0, 2)]
    inner: Inner | None = None
    text: Annotated[str, Form("^x+$", "some x")] = "x"
    flag: bool = False
    seconds: float = 1.5
    more: Mapping[str, int] | None = None
    some: Annotated[list[int] | None, Length(1, 2), "Some."] = None
    data: bytes = b""


WHOLE: dict[str, Any] = {"count": 3, "ids": [1, 5], "inner": {"word": "b"}, "text": "xx", "flag": True, "seconds": 2}


def test_what_fits_becomes_the_type() -> None:
    assert checked(Outer, WHOLE, "it") == Outer(3, [1, 5], Inner("b"), "xx", flag=True, seconds=2)
    assert checked(Outer, {"count": 1.0, "ids": []}, "it") == Outer(1, [])
    assert checked(Outer, {"count": 1, "ids": [], "inner": None}, "it") == Outer(1, [])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"count": 0}, "count must be from 1 to 9, not 0"),
        ({"count": "3"}, "count must be a whole number, not '3'"),
        ({"count": 1.5}, "count must be a whole number, not 1.5"),
        ({"count": True}, "count must be a whole number, not True"),
        ({"count": 10**5000}, "count must be from 1 to 9, not a number of more digits"),
        ({"count": None}, "count must be a whole number, not None"),
        ({"ids": {}}, "ids must be a list, not {}"),
        ({"ids": [1, "x"]}, "ids[1] must be a whole number, not 'x'"),
        ({"ids": [1, 2, 3]}, "ids must have 0 to 2 items, not 3"),
        ({"some": []}, "some must have 1 to 2 items, not 0"),
        ({"inner": {}}, "inner needs word"),
        ({"inner": {"word": "c"}}, "word must be a or b, not 'c'"),
        ({"inner": {"word": []}}, "word must be a or b, not []"),
        ({"inner": {"word": "a", "else": 1}}, "inner has no field 'else'; there are word"),
        ({"text": "y"}, "text must be some x, not 'y'"),
        ({"text": "x\n"}, "text must be some x, not 'x\\n'"),
        ({"text": "\ud800"}, "text must be text in UTF-8"),
        ({"text": 5}, "text must be a string, not 5"),
        ({"flag": 1}, "flag must be true or false, not 1"),
        ({"seconds": 10**400}, "seconds must be a number, not a number of more digits"),
        ({"data": "x"}, "it has no field 'data'; there are count, ids, inner, text, flag, seconds, more, some"),
        (
            {"x" * 1000: 1},
            f"it has no field '{'x' * 59}…; there are count, ids, inner, text, flag, seconds, more, some",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(WrongError) as found:
        checked(Outer, WHOLE | change, "it")
    assert str(found.value) == sentence


def test_a_field_without_a_default_is_needed() -> None:
    with pytest.raises(WrongError, match="it needs count"):
        checked(Outer, {"ids": []}, "it")


@pytest.mark.parametrize(
    ("kind", "text", "value"), [(int, "017", 17), (bool, "true", True), (str, "", ""), (str | None, "x", "x")]
)
def test_an_address_has_texts(kind: object, text: str, value: object) -> None:
    assert from_text(kind, text, "it") == value


@pytest.mark.parametrize(
    ("kind", "text"), [(int, "-1"), (int, " 1"), (int, "1_0"), (int, "٣"), (int, ""), (bool, "1"), (bool, "True")]
)
def test_an_address_with_another_text_is_refused(kind: object, text: str) -> None:
    with pytest.raises(WrongError):
        from_text(kind, text, "it")


def test_an_answer_is_json_whatever_it_is_made_of() -> None:
    found = plain(Outer(3, [1], Inner("a"), "\udcff", seconds=float("nan"), more={"\udcff": 1}, data=b"x"))
    assert found == {
        "count": 3,
        "ids": [1],
        "inner": {"word": "a"},
        "text": "\ufffd",
        "flag": False,
        "seconds": None,
        "more": {"\ufffd": 1},
        "some": None,
    }


def test_a_schema_says_what_is_checked() -> None:
    known: dict[str, dict[str, Any]] = {}
    assert schema_of(Outer, known, whole=False) == {"$ref": "#/components/schemas/Outer"}
    outer = known["Outer"]
    assert (outer["required"], outer["additionalProperties"]) == (["count", "ids"], False)
    assert outer["description"] == "A thing."
    assert outer["properties"] == {
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
        "ids": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 5},
            "minItems": 0,
            "maxItems": 2,
        },
        "inner": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
        "text": {"type": "string", "pattern": "^x+$", "default": "x"},
        "flag": {"type": "boolean", "default": False},
        "seconds": {"type": "number", "default": 1.5},
        "more": {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}]},
        "some": {
            "anyOf": [
                {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
                {"type": "null"},
            ],
            "description": "Some.",
        },
    }
    assert known["Inner"]["properties"] == {"word": {"type": "string", "enum": ["a", "b"]}}


def test_what_we_answer_has_each_field() -> None:
    known: dict[str, dict[str, Any]] = {}
    schema_of(Outer, known)
    assert known["Outer"]["required"] == ["count", "ids", "inner", "text", "flag", "seconds", "more", "some"]
