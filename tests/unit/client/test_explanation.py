"""What a client reads of explanations."""

import pytest

from beanpole import ArgumentError, Backoff, Explanation, NotFoundError, Reason, UnexpectedReplyError
from tests.unit.client.peer import Maker, Peer
from tests.unit.client.test_extensions import has


def ok(text: bytes) -> bytes:
    """An answer with a text."""
    return b"OK %d\r\n%s\r\n" % (len(text), text)


def test_an_explanation(make: Maker) -> None:
    job = """---
id: 7
tube: "mail"
state: ready
place: more than 1000
reasons:
- paused: the tube is paused until 12:00, by pause-tube
- unwatched: nobody watches the tube
- failed: "no \\"such\\" address:\\u000aCA\\\\FÉ"
- log: "half a string
- attempts: 5
""".encode()
    script = [
        has("explain", "explain-tube"),
        (b"explain 7\r\n", ok(job)),
        (b"explain-tube mail\r\n", ok(b"---\ntube: mail\nready: 0\nreasons: []\n")),
        (b"explain 8\r\n", b"NOT_FOUND\r\n"),
    ]
    with Peer(script) as peer:
        client = make(peer.address)
        found = client.explain(7)
        assert dict(found) == {"id": "7", "tube": "mail", "state": "ready", "place": "more than 1000"}
        assert found.reasons == [
            Reason("paused", "the tube is paused until 12:00, by pause-tube"),
            Reason("unwatched", "nobody watches the tube"),
            Reason("failed", 'no "such" address:\nCA\\FÉ'),
            Reason("log", '"half a string'),
            Reason("attempts", "5"),
        ]
        found = client.explain_tube("mail")
        assert (found["ready"], found.reasons) == ("0", [])
        with pytest.raises(NotFoundError):
            client.explain(8)
        client.close()


def test_what_is_no_explanation() -> None:
    with pytest.raises(UnexpectedReplyError):
        Explanation.parse(b"---\nx\n")


def test_a_wrong_argument_is_named_before_anything_is_sent(make: Maker) -> None:
    client = make(("127.0.0.1", 1), backoff=Backoff(attempts=1))
    with pytest.raises(ArgumentError):
        client.explain(-1)
    with pytest.raises(ArgumentError):
        client.explain_tube("a b")
