"""Who holds a job, as `explain` says it, and what is made of that."""

import json

import pytest

from beanpole.client import Explanation, JobInfo, SessionInfo, StatsTube
from beanpole.console.reading.held import Held, HeldJob, holder_of, workers_of

JOB = JobInfo(7, tube="mail", state="reserved", ttr=60)


def said(who: str) -> Explanation:
    """What a server says of a held job."""
    text = f"reserved: by {who}, last heard of 3.5 s ago; 12.25 s of 60 s are left"
    return Explanation.parse(f"---\nid: 7\nreasons:\n- {text}\n- timeouts: its time to run has ended\n".encode())


@pytest.mark.parametrize(
    ("who", "number", "name", "peer"),
    [
        ("session 12", 12, "", ""),
        ("session 12 (127.0.0.1:4711)", 12, "", "127.0.0.1:4711"),
        ('session 12 ("w")', 12, "w", ""),
        ('session 12 (127.0.0.1:4711, "w 1")', 12, "w 1", "127.0.0.1:4711"),
        (
            'session 12 ([::1]:4711 by 10.0.0.1:1, "a\\"), last heard of 9 s ago; 9 s of")',
            12,
            'a"), last heard of 9 s ago; 9 s of',
            "[::1]:4711 by 10.0.0.1:1",
        ),
        ('session 12 ("a:\\u0020b\\\\")', 12, "a: b\\", ""),
    ],
)
def test_holder(who: str, number: int, name: str, peer: str) -> None:
    found = holder_of(JOB, said(who))
    assert found == HeldJob(JOB, 12.25, number, name, peer, 3.5)
    assert found is not None
    assert found.ran_s == 47.75
    json.dumps(found.record)


def test_another_sentence_says_nothing() -> None:
    for text in ("- reserved: by somebody\n", "- buried: by session 3, last heard of 3 s ago; 3 s of 4 s\n"):
        assert holder_of(JOB, Explanation.parse(f"---\nid: 7\nreasons:\n{text}".encode())) is None


def test_share_of_the_time_to_run() -> None:
    assert HeldJob(JOB, 60).share == 0
    assert HeldJob(JOB, 15).share == 0.75
    assert HeldJob(JOB, 0).share == 1
    assert HeldJob(JobInfo(1, ttr=0), 0).share == 1
    assert HeldJob(JOB, 61).ran_s == 0  # it was given a shorter one since


def session(number: int, held: int) -> SessionInfo:
    """A session that holds jobs."""
    return SessionInfo(number, f"w{number}", "peer", 9.0, "reserve", 1.0, "default", ["mail"], 1, None, held, 1.0)


def test_workers_are_those_who_hold_something() -> None:
    held = [HeldJob(JOB, 10, 1), HeldJob(JOB, 20, 1), HeldJob(JOB, 30, 9, "gone", "there"), HeldJob(JOB, 40)]
    found = workers_of(held, [session(1, 2), session(2, 5), session(3, 0)])
    assert [(each.number, each.name, each.count, len(each.jobs)) for each in found] == [
        (2, "w2", 5, 0),
        (1, "w1", 2, 2),
        (None, "", 1, 1),
        (9, "gone", 1, 1),
    ]


def test_part_of_a_tube() -> None:
    other = JobInfo(8, tube="files", ttr=60)
    jobs = [HeldJob(JOB, 10, 1), HeldJob(other, 20, 2)]
    tubes: list[StatsTube] = [
        StatsTube.parse(f"---\nname: {name}\ncurrent-jobs-reserved: 1\n".encode()) for name in ("mail", "files")
    ]
    whole = Held(jobs, 2, tubes, workers_of(jobs, []))
    part = whole.of("files")
    assert (part.jobs, part.total, [each.number for each in part.workers]) == ([jobs[1]], 1, [2])
    assert whole.of("") is whole
    assert whole.of("nothing").total == 0
