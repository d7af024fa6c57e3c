"""What groups of a tube cost, and how long the job of a quiet group waits beside a loud one.

Run with `python -m benchmarks.groups [--groups N] [--jobs N]`. Commands are compared as in `benchmarks.rules`: put,
reserve and delete in a tube whose jobs have groups, and in one with as many jobs that have none, in turn. Then a tube
gets a group of a million jobs, and each quiet group one: how long that takes until a worker has it, beside the same in
an empty tube. Memory is that of a server that gets as many jobs of one group, and of a group each, as of none.
"""

import argparse
import time
from collections.abc import Callable

from benchmarks.rules import BODY_BYTES, ROUND_COMMANDS, Crowd, Putters, Talk, compare, logged, put, resident, say
from tests.servers import Server, beanpole_server

IN_FLIGHT = 16
MEMORY_JOBS = 200_000
SAMPLES = 10_000
"""Of each of the waits that are compared: as many as there are quiet groups, by default."""


def plain(number: int) -> bytes:
    """A job without a group."""
    return put(number, b"put-job %d ttr=60\r\n" % BODY_BYTES)


def of(groups: int) -> Callable[[int], bytes]:
    """Jobs that are each of the next one of so many groups."""
    return lambda number: put(number, b"put-job %d ttr=60 group=g%07d\r\n" % (BODY_BYTES, number % groups))


def cycles(groups: int) -> None:
    """Compares put, reserve and delete in a tube with groups and in one without, beside as many jobs as groups."""
    for log in (False, True):
        with logged(log=log) as server:
            crowds = []
            for tube, one in ((b"plain", plain), (b"groups", of(groups))):
                Putters(server, tube, one).fill(groups)
                crowds.append(Crowd(server.port, tube, IN_FLIGHT, one, together=True))
            title = f"{groups} groups, {len(crowds[0].talks)}x{IN_FLIGHT}{', log' * log}"
            compare(server, title, (crowds[0].cycle, crowds[1].cycle), ROUND_COMMANDS)


def wait(putter: Talk, worker: Talk, name: bytes) -> float:
    """Seconds from the put of a job of a group until a worker has it, which does other jobs until then."""
    began = time.perf_counter()
    id = putter.ask(b"put-job 1 group=%b\r\nx\r\n" % name, 1).split()[1]
    got = b""
    while got != id:
        got = worker.ask(b"reserve\r\n", 2).split()[1]
        took = time.perf_counter() - began
        worker.ask(b"delete %b\r\n" % got, 1)
    return took


def waits(groups: int, jobs: int) -> None:
    """Compares how long the job of a quiet group waits beside a loud group and in an empty tube, in turn."""
    with beanpole_server() as server:
        Putters(server, b"loud", of(1)).fill(jobs)
        pairs = [(Talk(server.port, tube), Talk(server.port, tube)) for tube in (b"empty", b"loud")]
        found: list[list[float]] = [[], []]
        for number in range(SAMPLES):
            for times, (putter, worker) in zip(found, pairs, strict=True):
                times.append(wait(putter, worker, b"quiet%d" % (number % groups)) * 1e6)
        for part in (50, 99):
            alone, beside = (sorted(times)[SAMPLES * part // 100] for times in found)
            say(
                f"{f'p{part} wait of a quiet group beside {jobs} jobs, us':<52}"
                f"{alone:>9.0f}{beside:>9.0f}{beside / alone:>8.2f}"
            )


def memory() -> None:
    """Prints the bytes of a job of a group beyond those of one without, and those of a group."""
    used = []
    for one in (plain, of(1), of(MEMORY_JOBS)):
        with beanpole_server() as server:
            used.append(job_bytes(server, one))
    say(
        f"{'bytes of memory a job, of no group and of one':<52}{used[0]:>9.0f}{used[1]:>9.0f}{used[1] - used[0]:>+8.0f}"
    )
    say(f"{'bytes of memory a group':<52}{used[2] - used[1]:>26.0f}")


def job_bytes(server: Server, one: Callable[[int], bytes]) -> float:
    """Bytes of memory that each of many jobs takes."""
    putters = Putters(server, b"t", one)
    putters.run(1)
    before = resident(server)
    putters.fill(MEMORY_JOBS)
    return (resident(server) - before) / MEMORY_JOBS


def main() -> None:
    """Measure our own server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    given = parser.parse_args()
    say(
        f"{'processor time of the server, ns a command':<52}"
        f"{'plain':>9}{'groups':>9}{'ratio':>8}{'least':>8}{'most':>8}"
    )
    cycles(given.groups)
    waits(given.groups, given.jobs)
    memory()


if __name__ == "__main__":
    main()
