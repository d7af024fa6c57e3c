"""Heads of HTTP requests, read by llhttp, the strict parser of Node.js.

A client sends the same fields again and again, so what they say is remembered. A head that has fields which llhttp has
read before, behind an ordinary first line, is not parsed again.
"""

import re
from dataclasses import dataclass

import httptools

from beanpole_ids import limits

CHUNKED = -1
"""The length of a body that comes in chunks."""

LINE = re.compile(rb"(GET|POST|HEAD) (/[A-Za-z0-9/._~!$&'()*+,;=:@%?-]*) HTTP/1\.1")
"""A first line that needs no parser: only characters that RFC 3986 allows."""

METHOD = re.compile(rb"[A-Z][A-Z-]* /")

SHAPE = re.compile(rb"[A-Z-]+ [!-~]+ HTTP/1\.[01]")
"""A first line that may be parsed: llhttp would take more spaces, and other protocols."""

DIGITS = re.compile(rb"[0-9]{1,15}")

ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"content-type", b"origin"})
"""Fields that no request may have twice."""

FORWARDING = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
"""Fields by which a proxy says that somebody else asks."""


class HeadError(Exception):
    """A head makes no sense. `problem` is the name of the problem, and the text is its detail."""

    def __init__(self, detail: str, problem: str = "bad-request") -> None:
        super().__init__(detail)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Fields:
    """What the fields of a head say."""

    length: int = 0
    """Bytes of the body; `CHUNKED`: they are not known."""

    keeps: bool = True
    """Whether the connection may serve another request."""

    expects: bool = False
    """Whether the client waits for an interim response before it sends the body."""

    host: str = ""
    """The field Host; "" if there is none."""

    origin: str = ""
    """Whose page asks, if a browser does; "" if no field says so."""

    kind: str = ""
    """The media type of the body, without parameters."""

    is_marked: bool = False
    """Whether there is a field X-Beanpole, which no page of another site can send."""

    is_forwarded: bool = False
    """Whether a proxy has passed the request on."""


@dataclass(slots=True)
class Asked:
    """A request, whole."""

    method: str
    target: str
    fields: Fields
    body: bytes = b""
    source: str = ""
    """The client's IP address."""


class Collector:
    """What llhttp finds in a request."""

    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.has_head = False
        self.is_whole = False

    def on_url(self, part: bytes) -> None:
        """Take a part of the target."""
        if not self.has_head:
            self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field. Those behind a body say nothing that matters here."""
        if not self.has_head:
            self.fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self.has_head = True

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        if not self.is_whole:
            self.body += part

    def on_message_complete(self) -> None:
        """The request has ended."""
        self.is_whole = True


class Heads:
    """Reads heads."""

    def __init__(self) -> None:
        self._known: dict[bytes, Fields] = {}
        """What fields say, by their bytes; only of heads with an ordinary first line."""

    def read(self, head: bytes) -> tuple[str, str, Fields]:
        """Return the method, the target and the fields of a head, which ends with an empty line.

        Raises HeadError: it makes no sense, or asks for what is not served here.
        """
        line, _, rest = head.partition(b"\r\n")
        fields = self._known.get(rest)
        match = LINE.fullmatch(line)
        if fields is None or match is None:
            target, fields = parse(head, line)
            if match is not None and len(rest) <= limits.HTTP_FIELDS_KEPT_BYTES_MAX:
                if len(self._known) >= limits.HTTP_FIELDS_KEPT_MAX:
                    self._known.clear()
                self._known[rest] = fields
            return line.partition(b" ")[0].decode("ascii"), target, fields
        return match[1].decode("ascii"), match[2].decode("ascii"), fields


def parse(head: bytes, line: bytes) -> tuple[str, Fields]:
    """Return the target and the fields of a head whose first line is `line`.

    Raises HeadError: see `Heads.read`.
    """
    found = Collector()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(head[:-1])
        if found.has_head:
            raise HeadError("the head ends before its empty line")
        parser.feed_data(head[-1:])
    except httptools.HttpParserUpgrade:
        pass  # an offer, which is not taken
    except httptools.HttpParserInvalidMethodError:
        is_one = METHOD.match(line) is not None
        raise HeadError("the method is not known", "not-http" if is_one else "bad-request") from None
    except httptools.HttpParserError as error:
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in found.fields):
            raise HeadError("no transfer coding but chunked is understood", "not-http") from None
        raise HeadError(f"this is no HTTP request: {error}") from None
    if not found.has_head or not SHAPE.fullmatch(line):
        raise HeadError("this is no request of HTTP/1.1 or HTTP/1.0")
    is_old = line.endswith(b"0")
    return found.target.decode("latin-1"), fields_of(found.fields, is_old=is_old)


def fields_of(found: list[tuple[bytes, bytes]], *, is_old: bool) -> Fields:
    """Return what fields say. `is_old`: in a request of HTTP/1.0.

    Raises HeadError: see `Heads.read`.
    """
    values = dict(found)
    for name in ONCE & values.keys():
        if sum(each == name for each, _ in found) > 1:
            raise HeadError(f"the field {name.decode()} is there twice")
    if b"host" not in values and not is_old:
        raise HeadError("the field host is missing")
    length = 0
    if (coding := values.get(b"transfer-encoding")) is not None:
        if is_old or coding.lower() != b"chunked":
            raise HeadError("no transfer coding but chunked is understood, and that in HTTP/1.1", "not-http")
        length = CHUNKED
    elif (text := values.get(b"content-length")) is not None:
        if not DIGITS.fullmatch(text):
            raise HeadError("content-length must be a number")
        length = int(text)

    # The parser forgets these at the end of a request.
    options = {each.strip() for name, value in found if name == b"connection" for each in value.lower().split(b",")}

    def text_of(name: bytes) -> str:
        return values.get(name, b"").decode("latin-1")

    return Fields(
        length=length,
        keeps=not is_old and length != CHUNKED and b"close" not in options,
        expects=not is_old and text_of(b"expect").lower() == "100-continue",
        host=text_of(b"host"),
        origin=text_of(b"origin"),
        kind=text_of(b"content-type").partition(";")[0].strip().lower(),
        is_marked=b"x-beanpole" in values,
        is_forwarded=not FORWARDING.isdisjoint(values),
    )


class Chunks:
    """Reads a body that comes in chunks. Whatever follows it is not read: the connection ends with its answer."""

    def __init__(self) -> None:
        self._found = Collector()
        self._parser = httptools.HttpRequestParser(self._found)
        self._parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._byte_count = 0

    def feed(self, data: bytes) -> bytes | None:
        """Take bytes; return the body if it is whole.

        Raises HeadError: they are no chunks, or too many.
        """
        self._byte_count += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self._found.is_whole:
                raise HeadError(f"the body makes no sense: {error}") from None
        if self._found.is_whole:
            return self._found.body
        if self._byte_count > limits.HTTP_HEAD_BYTES_MAX:
            raise HeadError("the body is too large", "too-large")
        return None
