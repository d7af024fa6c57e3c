"""Who holds a job, and what is made of that."""

import json
from dataclasses import replace

from beanpole.client import JobInfo, SessionInfo, StatsTube
from beanpole.console.reading.sessions import Held, HeldJob, held_by, workers_of

JOB = JobInfo(7, tube="mail", state="reserved", ttr=60)


def test_holder() -> None:
    job = replace(JOB, session=12, peer="127.0.0.1:4711", left=12.25)
    (found,) = held_by([job], [session(12, 1)])
    assert found == HeldJob(job, 12.25, 12, "w12", "127.0.0.1:4711", 1.0)
    assert found.ran_s == 47.75
    json.dumps(found.record)
    (found,) = held_by([job], [])
    assert (found.session, found.name, found.silent_s) == (12, "", None)


def test_share_of_the_time_to_run() -> None:
    assert HeldJob(JOB, 60).share == 0
    assert HeldJob(JOB, 15).share == 0.75
    assert HeldJob(JOB, 0).share == 1
    assert HeldJob(JobInfo(1, ttr=0), 0).share == 1
    assert HeldJob(JOB, 61).ran_s == 0  # it was given a shorter one since


def session(number: int, held: int) -> SessionInfo:
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
