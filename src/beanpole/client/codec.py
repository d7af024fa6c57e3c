"""Bodies as values: what a program puts and gets, and the bytes that the server keeps.

A codec is any object with `encode` and `decode`. A body that can't be encoded is an error before anything is sent; one
that can't be decoded is a :class:`~beanpole.errors.BodyError` with the job's id, for the job is reserved all the same.
"""

import codecs
import json
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

B = TypeVar("B")


class Codec(Protocol[B]):
    """Turns bodies into bytes and back."""

    def encode(self, body: B) -> bytes:
        """The bytes of a body. Raises TypeError or ValueError if it can't be encoded."""
        ...

    def decode(self, data: bytes) -> B:
        """The body of some bytes. Raises ValueError if it can't be decoded."""
        ...


class BytesCodec:
    """Bodies are bytes."""

    def encode(self, body: bytes) -> bytes:
        """The bytes themselves."""
        return body

    def decode(self, data: bytes) -> bytes:
        """The bytes themselves."""
        return data


@dataclass(frozen=True, slots=True)
class TextCodec:
    """Bodies are strings. Bytes may be put as well, and come back as a string."""

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """Raises LookupError for an encoding that Python does not have."""
        codecs.lookup(self.encoding)

    def encode(self, body: str | bytes) -> bytes:
        """The string in the encoding; bytes stay as they are. Raises TypeError for anything else."""
        if isinstance(body, str):
            return body.encode(self.encoding)
        if isinstance(body, bytes):
            return body
        raise TypeError(
            f"a body is a string, not {type(body).__name__}: choose a codec, codec=beanpole.JsonCodec() say"
        )

    def decode(self, data: bytes) -> str:
        """The string."""
        return data.decode(self.encoding)


class JsonCodec:
    """Bodies are whatever JSON can say."""

    def encode(self, body: Any) -> bytes:  # noqa: ANN401 - JSON is of any type
        """The body as compact JSON in UTF-8."""
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    def decode(self, data: bytes) -> Any:  # noqa: ANN401 - JSON is of any type
        """What the JSON says."""
        return json.loads(data)
