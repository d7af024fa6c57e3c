"""Heads: what is read means to h11, another parser, the same; and to one that has read others before."""

import random

import h11
import pytest

from beanpole_ids.http.head import CHUNKED, Chunks, Fields, HeadError, Heads

LINES = (
    b"GET /v1/ids/a/b HTTP/1.1",
    b"POST /v1/ids/a/b?count=2 HTTP/1.1",
    b"HEAD / HTTP/1.1",
    b"POST http://x/ HTTP/1.1",
    b"PUT /x HTTP/1.1",
    b"GET / HTTP/1.0",
    b"POST /a HTTP/1.0",
    b"OPTIONS * HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/2.0",
    b"GET / HTTP/1.1 ",
    b"GET /\xc3\xa4 HTTP/1.1",
    b"GET /#x HTTP/1.1",
    b"get / HTTP/1.1",
)

FIELDS = (
    b"Host: x",
    b"host:x:80 ",
    b"Host: y",
    b"Content-Length: 3",
    b"content-length: 03",
    b"Content-Length: 3, 3",
    b"Content-Length: +3",
    b"Content-Length: 0x3",
    b"Content-Length:",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Connection: close",
    b"Connection: keep-alive, Close",
    b"Expect: 100-continue",
    b"Origin: http://x",
    b"Content-Type: application/json; charset=utf-8",
    b"X-Beanpole: 1",
    b"X-Beanpole:",
    b"Via: 1.1 a",
    b" folded",
    b"A: b\rc",
    b"A: b\nHost: z",
    b"A: \x00",
    b"A: \xff",
    b"A b: c",
    b": c",
    b"no colon",
)


def head_of(chance: random.Random) -> bytes:
    """A head that is nearly right."""
    fields = chance.sample(FIELDS, chance.randrange(5))
    if chance.random() < 0.8:
        fields.insert(0, b"Host: x")
    head = bytearray(b"\r\n".join([chance.choice(LINES), *fields]))
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        head[chance.randrange(len(head))] = chance.choice(b"\r\n\t :;,\x00\x7f\xffaA0/")
    return bytes(head).replace(b"\r\n\r\n", b"\r\n") + b"\r\n\r\n"


def read(heads: Heads, head: bytes) -> tuple[str, str, Fields] | str:
    """What a head means; or the name of the problem with it."""
    try:
        return heads.read(head)
    except HeadError as error:
        return error.problem


@pytest.mark.parametrize("seed", range(4))
def test_what_is_read_means_the_same_to_another_parser(seed: int) -> None:
    chance, heads, read_count = random.Random(seed), Heads(), 0
    for _ in range(5_000):
        head = head_of(chance)
        found = read(heads, head)
        assert read(Heads(), head) == found, head
        if isinstance(found, str):
            continue
        read_count += 1
        method, target, fields = found
        peer = h11.Connection(h11.SERVER)
        peer.receive_data(head)
        event = peer.next_event()
        assert isinstance(event, h11.Request), head
        assert (event.method, event.target) == (method.encode(), target.encode("latin-1")), head
        named = {name: [value for each, value in event.headers if each == name] for name, _ in event.headers}
        assert len(named.get(b"host", [])) <= 1, head
        assert fields.host.encode("latin-1") == b"".join(named.get(b"host", [])), head
        length = CHUNKED if b"transfer-encoding" in named else int(b"".join(named.get(b"content-length", [])) or b"0")
        assert fields.length == length, head
        assert fields.is_marked == (b"x-beanpole" in named), head
        assert not (fields.keeps and peer.their_state is h11.MUST_CLOSE), head
    assert read_count > 500


@pytest.mark.parametrize("seed", range(4))
def test_body_in_chunks_means_the_same_to_another_parser(seed: int) -> None:
    chance, whole_count = random.Random(seed), 0
    for _ in range(2_000):
        body = bytearray()
        for size in [*chance.choices(range(1, 20), k=chance.randrange(4)), 0]:
            body += b"%x%b\r\n" % (size, chance.choice([b"", b"", b";a=b"])) + b"x" * size + (b"\r\n" if size else b"")
        body += chance.choice([b"", b"T: 1\r\n"]) + b"\r\n"
        for _ in range(chance.choice([0, 0, 1])):
            body[chance.randrange(len(body))] = chance.choice(b"\r\n 0123;xX")
        whole = feed(Chunks(), bytes(body), len(body))
        assert feed(Chunks(), bytes(body), chance.randrange(1, 9)) == whole
        if isinstance(whole, bytes):
            whole_count += 1
            assert whole == read_by_h11(bytes(body)), body
    assert whole_count > 500


def feed(chunks: Chunks, data: bytes, size: int) -> bytes | str | None:
    """The body that comes in pieces; or the name of the problem with it, or None if there is more to come."""
    try:
        for start in range(0, len(data), size):
            if (found := chunks.feed(data[start : start + size])) is not None:
                return found
    except HeadError as error:
        return error.problem
    return None


def read_by_h11(body: bytes) -> bytes:
    """What h11 reads of a body in chunks."""
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    found = b""
    while not isinstance(event := peer.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            found += event.data
        assert isinstance(event, h11.Request | h11.Data), (body, event)
    return found


def test_memory_of_fields_is_bounded() -> None:
    heads = Heads()
    for number in range(3_000):
        heads.read(b"GET / HTTP/1.1\r\nHost: x%d\r\n\r\n" % number)
    heads.read(b"GET / HTTP/1.1\r\nHost: y\r\nA: %b\r\n\r\n" % (b"b" * 4_000))
    assert 0 < len(heads._known) <= 1_000
    assert all(len(each) < 3_000 for each in heads._known)
