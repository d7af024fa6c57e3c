"""A load whose numbers are known: each tube is there for one thing that a board or an alert must show."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from beanpole import Client
from beanpole.errors import BeanpoleError
from tests.e2e.process import Process, wait_until
from tests.servers import HOST

SERVER = "main"

MAIL, LATE, ORPHANS, HANGING, POISON, DEAD = "mail", "late", "orphans", "hanging", "poison", "poison-dead"
OLD, FULL, TWINS, GONE, MOVED, IDLE, PAUSED = "old", "full", "twins", "gone", "moved", "idle", "paused"
FIRED = "fired"
TUBES = (MAIL, LATE, ORPHANS, HANGING, POISON, DEAD, OLD, FULL, TWINS, GONE, MOVED, IDLE, PAUSED, FIRED)

WARM = 1
"""Jobs that are done before the load, so that every histogram is there before what is counted."""

PUT = {MAIL: 300, LATE: 50, ORPHANS: 25, HANGING: 5, POISON: 4, OLD: 3, FULL: 2, TWINS: 1, GONE: 7, MOVED: 6, FIRED: 1}
ENDS = {
    (MAIL, "deleted"): 240,
    (MAIL, "released"): 30,
    (MAIL, "buried"): 20,
    (LATE, "deleted"): 50,
    (HANGING, "timed_out"): 5,
    (POISON, "dead"): 4,
    (OLD, "expired"): 3,
    (GONE, "lost"): 1,
}
"""How the jobs of the load end."""

HELD, READY, BURIED = 10, 30, 20
"""What is left of the mails."""

REFUSED, MERGED = 3, 2
READY_S, HELD_S, LATE_S = 0.3, 0.6, 0.12
"""For how long mails are ready, and held, and delayed jobs late, at least: in a bucket of its own each."""


@dataclass
class Spans:
    """What the load has measured itself, in seconds: no time of a job can be outside of these."""

    ready: tuple[float, float] = (0, 0)
    held: tuple[float, float] = (0, 0)
    late: tuple[float, float] = (0, 0)


class Load:
    """The connections of the load, which stay open until the end, and what they did."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.spans = Spans()
        self.orphans_since = 0.0
        self.clients: list[Client[bytes]] = []
        self.producer = self.client()
        self.keeper = self.client(*TUBES)
        self.waiting = process.connect()

    def client(self, *tubes: str) -> Client[bytes]:
        """A new connection that watches these tubes only."""
        client = Client((HOST, self.process.port), encoding=None)
        self.clients.append(client)
        for tube in tubes:
            client.watch(tube)
        if tubes:
            client.ignore("default")
        return client

    def close(self) -> None:
        self.waiting.socket.close()
        for client in self.clients:
            client.close()

    def begin(self) -> None:
        """Sets rules, and does one job of each kind that has a histogram."""
        self.producer.put(b"warm", tube=MAIL)
        self.producer.put_job(b"warm", delay=0.1, tube=LATE)
        worker = self.client(MAIL, LATE)
        for _ in range(2):
            worker.delete(worker.reserve(20))
        self.producer.set_rules(POISON, f"attempts: 1\ndead: {DEAD}")
        self.producer.set_rules(FULL, "jobs-max: 2")
        self.producer.set_rules(TWINS, "unique: body")
        self.producer.set_schedule("nightly", b"x", cron="0 0 29 2 *", start="2100-01-01T00:00:00")
        self.producer.pause_schedule("nightly")

    def run(self) -> None:
        self.orphans()
        self.mails()
        self.delayed()
        self.failures()
        self.limits()
        self.producer.pause_tube(PAUSED, 3600)
        self.schedule()
        self.waiting.send(b"watch %b\r\nignore default\r\nreserve\r\n" % IDLE.encode())
        wait_until(lambda: self.producer.stats_tube(IDLE).current_waiting == 1, "somebody waits")

    def put(self, tube: str, delay: int = 0) -> tuple[float, float]:
        """Puts the jobs of a tube; returns when that began and when it was done."""
        before = time.monotonic()
        self.producer.put_many([b"%d" % each for each in range(PUT[tube])], delay=delay, ttr=120, tube=tube)
        return before, time.monotonic()

    def orphans(self) -> None:
        self.orphans_since, _ = self.put(ORPHANS)
        self.keeper.ignore(ORPHANS)

    def mails(self) -> None:
        """Jobs that wait, are held, and end in many ways."""
        first, last = self.put(MAIL)
        wait_for(last + READY_S)
        begun, worker = time.monotonic(), self.client(MAIL)
        jobs = worker.reserve_many(PUT[MAIL])
        reserved = time.monotonic()
        self.spans.ready = begun - last, reserved - first
        wait_for(reserved + HELD_S)
        ended = time.monotonic()
        worker.delete_many(jobs[: ENDS[MAIL, "deleted"]])
        rest = jobs[ENDS[MAIL, "deleted"] : -HELD]
        for job in rest[:READY]:
            worker.release(job)
        for job in rest[READY:]:
            worker.bury(job)
        self.spans.held = ended - reserved, time.monotonic() - begun

    def delayed(self) -> None:
        """Jobs that are due in a second, and start later."""
        first, last = self.put(LATE, delay=1)
        wait_until(lambda: self.producer.stats_tube(LATE).current_jobs_ready == PUT[LATE], "all are due")
        wait_for(time.monotonic() + LATE_S)
        begun, worker = time.monotonic(), self.client(LATE)
        worker.delete_many(worker.reserve_many(PUT[LATE]))
        self.spans.late = begun - last - 1, time.monotonic() - first - 1

    def failures(self) -> None:
        """Jobs that time out, die, expire, are lost, are moved."""
        hanging = self.client(HANGING)
        self.producer.put_many([b"x"] * PUT[HANGING], ttr=1, tube=HANGING)
        assert len(hanging.reserve_many(PUT[HANGING])) == PUT[HANGING]
        self.put(POISON)
        failing = self.client(POISON)
        for job in failing.reserve_many(PUT[POISON]):
            failing.fail_job(job, "550 no such user")
        for _ in range(PUT[OLD]):
            self.producer.put_job(b"x", expire=0.1, tube=OLD)
        self.put(GONE)
        with Client((HOST, self.process.port), encoding=None) as worker:
            worker.watch(GONE)
            worker.ignore("default")
            worker.reserve()
        wait_until(lambda: self.producer.stats_tube(GONE).current_jobs_ready == PUT[GONE], "the job is back")
        self.producer.clear_tube(GONE)
        self.put(MOVED)
        self.producer.move_jobs(MOVED, "ready", to=PAUSED)
        wait_until(lambda: self.producer.stats_tube(OLD).current_jobs_ready == 0, "all have expired")
        wait_until(lambda: self.producer.stats().job_timeouts == PUT[HANGING], "all have timed out")

    def schedule(self) -> None:
        """One that fires once, into a tube of its own; another one was paused in the beginning."""
        at = datetime.now(UTC) + timedelta(seconds=1)
        self.producer.set_schedule(FIRED, b"x", at=at, tube=FIRED)
        wait_until(lambda: self.producer.schedule(FIRED).fires == 1, "the schedule fires")

    def limits(self) -> None:
        """Puts that rules refuse or merge."""
        for _ in range(PUT[FULL]):
            self.producer.put(b"x", tube=FULL)
        for _ in range(REFUSED):
            with pytest.raises(BeanpoleError):
                self.producer.put(b"x", tube=FULL)
        for _ in range(PUT[TWINS] + MERGED):
            self.producer.put(b"x", tube=TWINS)


def wait_for(moment: float) -> None:
    wait_until(lambda: time.monotonic() >= moment, "time passes")
