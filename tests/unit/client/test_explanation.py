"""What a client reads of explanations."""

import pytest

from beanpole import ArgumentError, Backoff, Explanation, NotFoundError, Reason, UnexpectedReplyError
from tests.unit.client.peer import Maker, has, ok


def test_an_explanation(make: Maker) -> None:
    job = """---
id: 7
tube: "mail"
state: ready
place: more than 1000
reasons:
- paused: {"left": 2.5}
- unwatched: {}
- failed: {"reason": "no \\"such\\" address:\\u000aCA\\\\FÉ"}
- new: {"because": [1, "x"]}
""".encode()
    script = [
        has("explain", "explain-tube"),
        (b"explain 7\r\n", ok(job)),
        (b"explain-tube mail\r\n", ok(b"---\ntube: mail\nready: 0\nreasons: []\n")),
        (b"explain 8\r\n", b"NOT_FOUND\r\n"),
    ]
    with make.to_peer(script) as client:
        found = client.explain(7)
        assert dict(found) == {"id": "7", "tube": "mail", "state": "ready", "place": "more than 1000"}
        assert found.reasons == [
            Reason("paused", {"left": 2.5}),
            Reason("unwatched", {}),
            Reason("failed", {"reason": 'no "such" address:\nCA\\FÉ'}),
            Reason("new", {"because": [1, "x"]}),
        ]
        assert [each.text for each in found.reasons] == [
            "the tube is paused for 2.5 s more",
            "no session watches the tube",
            'no "such" address:\nCA\\FÉ',
            "because [1, 'x']",
        ]
        found = client.explain_tube("mail")
        assert (found["ready"], found.reasons) == ("0", [])
        with pytest.raises(NotFoundError):
            client.explain(8)


@pytest.mark.parametrize(
    "text", [b"x", b"reasons:\n- paused: for long", b"reasons:\n- paused: {}", b"reasons:\n- order: []"]
)
def test_what_is_no_explanation(text: bytes) -> None:
    with pytest.raises(UnexpectedReplyError):
        Explanation.parse(b"---\n%b\n" % text)


WHO = {"session": 2, "peer": "unix", "name": "w 1"}


@pytest.mark.parametrize(
    ("word", "facts", "text"),
    [
        ("delayed", {"left": 3}, "it is ready in 3 s, as was asked"),
        ("delayed", {"left": 3, "attempt": 2}, "it is ready in 3 s, after attempt 2"),
        ("delayed", {"count": 2, "first": 7, "left": 3}, "2 jobs, the first of them, 7, is ready in 3 s"),
        ("rate", {"left": 0.5}, "the next token comes in 0.5 s"),
        (
            "breaker",
            {"failed": 1, "of": 1, "ago": 9, "left": 2.5},
            "it closed the tube 9 s ago, as 1 of 1 attempt failed; one job is tried in 2.5 s",
        ),
        (
            "breaker",
            {"failed": 1, "of": 2, "ago": 9, "left": 0},
            "it closed the tube 9 s ago, as 1 of 2 attempts failed; one job is tried next",
        ),
        (
            "breaker",
            {"failed": 1, "of": 2, "ago": 9, "probe": 7},
            "it closed the tube 9 s ago, as 1 of 2 attempts failed; job 7 is being tried",
        ),
        ("concurrency", {"held": 1, "limit": 1}, "1 job of the tube is held, and reserve holds no more than 1"),
        ("full", {"rule": "jobs-max", "limit": 2, "count": 3}, "jobs-max is 2, and 3 are ready or delayed"),
        ("full", {"rule": "bytes-max", "limit": 2, "count": 3}, "bytes-max is 2, and the bodies have 3 bytes"),
        ("order", {"before": 1}, "1 job of the tube before it"),
        ("order", {"before": 1000}, "1000 or more jobs of the tube before it"),
        ("busy", {"watching": 2}, "of 2 sessions that watch the tube none waits"),
        ("elsewhere", {"waiting": 1}, "1 session waits, but for other tubes"),
        (
            "reserved",
            {**WHO, "silent": 0.5, "left": 4, "ttr": 5},
            'by session 2 (unix, "w 1"), last heard of 0.5 s ago; 4 s of 5 s are left',
        ),
        (
            "reserved",
            {"session": -1, "silent": 0.5, "left": 4, "ttr": 5},
            "by another user's session, last heard of 0.5 s ago; 4 s of 5 s are left",
        ),
        ("reserved", {"session": 2, "closed": True}, "session 2, which held it, is closed, and gives its jobs back"),
        ("reserved", {"count": 3, "ids": [1, 2]}, "3 jobs, by id 1, 2 and others"),
        (
            "lost",
            {"session": 2, "silent": 3, "left": 7, "ttr": 60},
            "session 2, which holds it, has had no connection for 3 s and may come back for 7 s",
        ),
        ("timeouts", {"count": 1}, "its time to run has ended 1 time before"),
        ("buried", {}, "until it is kicked, moved or reserved by its id"),
        ("buried", {"count": 1, "ids": [4]}, "1 job, by id 4"),
        ("key", {"job": 4}, "job 4 has its key; kick passes over it"),
        ("superseded", {"state": "reserved"}, "another job has its key; when it comes back, it is deleted"),
        ("superseded", {"state": "buried"}, "another job took its key while it was held; kick passes over it"),
        ("expires", {"left": 2, "dead": False}, "it is deleted in 2 s"),
        ("expires", {"dead": True}, "it has waited too long; when it comes back, it is dead"),
        ("empty", {}, "no job is ready"),
        ("waiting", {"count": 2, "sessions": []}, "2 of other users"),
        ("waiting", {"count": 2, "sessions": [WHO, {"session": 3}]}, 'session 2 (unix, "w 1"), session 3'),
        ("log", {}, "reserve waits until the log has written more"),
        ("log", {"obstacle": "the disk is full"}, "the disk is full"),
        ("attempts", {"attempt": 1, "limit": 2, "under-way": True}, "attempt 1 of 2 is under way"),
        ("attempts", {"attempt": 1, "under-way": False}, "attempt 1 is over"),
        (
            "scheduled",
            {"schedule": "a", "scheduled": 1000.5, "fire": 3},
            "schedule a has put it for 1970-01-01T00:16:40.500Z, its fire 3",
        ),
        (
            "scheduled",
            {"schedule": "a", "scheduled": 1000},
            "schedule a has put it for 1970-01-01T00:16:40Z, as a client asked",
        ),
        (
            "died",
            {"ago": 3, "tube": "t", "attempts": 2, "why": "attempts"},
            "3 s ago in t, after 2 attempts, as the last attempt failed",
        ),
    ],
)
def test_the_sentence_of_a_reason(word: str, facts: dict[str, object], text: str) -> None:
    assert Reason(word, facts).text == text


def test_a_wrong_argument_is_named_before_anything_is_sent(make: Maker) -> None:
    client = make(("127.0.0.1", 1), backoff=Backoff(attempts=1))
    with pytest.raises(ArgumentError):
        client.explain(-1)
    with pytest.raises(ArgumentError):
        client.explain_tube("a b")
