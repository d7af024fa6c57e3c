"""What a second recovery finds, from a copy of the disk, so that looking at it may change it."""

from dataclasses import dataclass

from beanpole.log.log import Policy
from tests.simulation.disk import SimDisk
from tests.simulation.history import Pause, Recovered
from tests.simulation.keeping import Kept, returned
from tests.simulation.life import Life, Promises
from tests.simulation.runner import Clock

TUBES = (b"default", b"a", b"bb")


@dataclass(slots=True)
class Inspected:
    """A recovered server as its clients see it."""

    found: Recovered
    next_job_id: int
    tubes: dict[int, bytes]
    buried: dict[bytes, list[int]]
    """The buried jobs of each tube, the first to be kicked first."""

    kept: Kept
    """Who gets which job that comes back."""


def inspect(disk: SimDisk, clock: Clock, segment_bytes: int) -> Inspected:
    """Recovers a copy of the disk and asks what is there."""
    life = Life(disk.copy(), Clock(clock.now_ns, clock.offset_ns), Policy(None), segment_bytes, Promises())
    connection = life.connect().connection

    def ask(line: bytes) -> bytes:
        connection.receive(life.now_ns, line + b"\r\n")
        return connection.take_output()

    tubes = {}
    for job in life.engine.jobs.jobs():
        answer = ask(b"stats-job %d" % job.id)
        tubes[job.id] = answer.partition(b"\ntube: ")[2].partition(b"\n")[0].strip(b'"')
    pauses: dict[bytes, Pause] = {}
    buried: dict[bytes, list[int]] = {}
    next_job_id = life.engine.next_job_id
    kept = returned(life.engine, life.now_ns)
    for name in TUBES:
        ask(b"use " + name)
        tube = connection.session.used
        assert tube is not None
        pauses[name] = (tube.pause_s, tube.paused_until_ns) if tube.paused_until_ns > life.now_ns else None
        buried[name] = []
        while (answer := ask(b"peek-buried")).startswith(b"FOUND "):
            buried[name].append(int(answer.split()[1]))
            ask(b"delete %d" % buried[name][-1])
    life.found.pauses = pauses
    return Inspected(life.found, next_job_id, tubes, buried, kept)
