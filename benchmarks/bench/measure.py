"""Takes one sample: starts a server, brings it into the scenario's state, drives the load, and reads its costs.

Each way of measuring is an entry of `MEASURES`, so that the tables stay tables.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.bench.dial import allow_descriptors, dial, make_tubes, open_group
from benchmarks.bench.load import Load, LoadError
from benchmarks.bench.plan import Figure, Measure, Sample, Scenario
from benchmarks.bench.server import Server, running

SETUP_LIMIT_S = 60.0
"""How long it may take to bring a server into the state of a scenario; slower is reported instead of waited for."""
WARM_UP_S = 0.2
"""Load before the measured load, for caches, branch predictors and the allocator."""
LOAD_LIMIT_S = 120.0
"""End of a load that is bounded by its commands, in case that the server is slow."""
SPARE_DESCRIPTORS = 200
"""Files that server and generator need besides the connections."""
LONE_PUTS_MIN = 200
"""The fewest puts of which a median is reported."""
PROBE_BYTES = 256
"""Size of the write whose fdatasync a lone put is held against, about one record."""
PROBE_FILE_BYTES = 1 << 20
"""Size of the file that it goes to, whose space is allocated before, as that of the log's prepared files."""


@dataclass(frozen=True)
class Contestant:
    """One of the servers that are compared."""

    name: str
    command: tuple[str, ...]
    ours: bool

    def args(self, scenario: Scenario) -> tuple[str, ...]:
        """What the scenario adds to its command line."""
        if self.name == "floor":
            return scenario.args_floor
        return scenario.args_ours if self.ours else scenario.args_theirs


def load_at(server: Server, scenario: Scenario, seconds: float) -> Sample:
    """Drives the load at a server that we started."""
    allow_descriptors(sum(group.connections for group in scenario.groups) + SPARE_DESCRIPTORS)
    deadline = time.monotonic() + SETUP_LIMIT_S
    with apart(server), closing(dial(server.address)) as keeper, closing(Load()) as load:
        make_tubes(keeper, scenario.other_tubes, deadline)
        for group in scenario.groups:
            load.add(group, open_group(group, server.address, deadline))
        load.fill_held(deadline - time.monotonic())
        if not scenario.operations:
            load.run(min(WARM_UP_S, seconds))
        before = observe(server)
        by_letter = wants_letters(scenario)
        limit_s = LOAD_LIMIT_S if scenario.operations else seconds
        machine_before_s = machine_cpu_s()
        run_s, own_cpu_s = load.run(limit_s, scenario.operations, server.pid if by_letter else 0)
        after = observe(server)
        machine_s = machine_cpu_s() - machine_before_s
        sample = Sample(commands=load.commands, generator_busy=own_cpu_s / run_s)
        counted = next(state.latencies for state in load.groups if state.group.counted and state.group.programme)
        sample.figures = {
            "rate": load.commands / run_s,
            "p50_us": counted.percentile(0.5) / 1e3,
            "p99_us": counted.percentile(0.99) / 1e3,
            "p999_us": counted.percentile(0.999) / 1e3,
            "max_us": counted.largest / 1e3,
        }
        cpu_s, resident, disk = (b - a for a, b in zip(before, after, strict=True))
        sample.figures["cpu_us"] = cpu_s / load.commands * 1e6
        sample.figures["bytes_per_job"] = resident / load.commands
        sample.figures["disk_bytes"] = disk / load.commands
        sample.server_busy = cpu_s / run_s
        sample.others_busy = max(machine_s - cpu_s - own_cpu_s, 0.0) / run_s
        sample.peak_bytes = server.memory_bytes()[1]
        if by_letter:
            deletes = load.cpu_by_letter()["d"]
            sample.figures["cpu_delete_us"] = deletes[0] / deletes[1] / 1e3
        return sample


def machine_cpu_s() -> float:
    """CPU time that the whole machine has used, or was kept from using by its host, to the clock tick."""
    user, nice, system, _idle, _iowait, *rest = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *rest))) / os.sysconf("SC_CLK_TCK")


@contextmanager
def apart(server: Server) -> Iterator[None]:
    """Keeps the server's loop and the generator on a core each, where there are two, as long as a block runs.

    A thread of the server that syncs runs where the kernel wants it to, as it does for a user. Left alone, the kernel
    sometimes puts both on the same core, which makes a wake-up three times cheaper: the latency of one connection would
    then say where the two ran, not how fast the server is.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield
        return
    os.sched_setaffinity(server.pid, cores[:1])
    os.sched_setaffinity(0, cores[-1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def wants_letters(scenario: Scenario) -> bool:
    """Whether CPU time is counted apart for deletes: one busy connection that holds jobs."""
    busy = [group for group in scenario.groups if group.programme]
    return len(busy) == 1 and busy[0].connections == 1 and busy[0].held > 0


def observe(server: Server) -> tuple[float, int, int]:
    """CPU seconds, resident bytes and disk bytes of a server so far."""
    return server.cpu_s(), server.memory_bytes()[0], server.disk_bytes()


def measure_load(contestant: Contestant, scenario: Scenario, seconds: float, data: Path) -> Sample:
    """A fresh server under the scenario's load."""
    with running(contestant.command, contestant.args(scenario), data) as server:
        return load_at(server, scenario, seconds)


def measure_lone(
    contestant: Contestant,
    scenario: Scenario,
    seconds: float,
    data: Path,
    *,
    place: Callable[[Server], AbstractContextManager[object]] = nullcontext,
) -> Sample:
    """One connection puts and waits, and between two puts a small write is synced, so that both meet the same disk.

    Groups after the first are idle connections.
    """
    body_bytes = scenario.groups[0].body_bytes
    job = b"put 0 0 100 %d\r\n%b\r\n" % (body_bytes, b"x" * body_bytes)
    puts: list[int] = []
    syncs: list[int] = []
    with running(contestant.command, contestant.args(scenario), data) as server, place(server), ExitStack() as stack:
        for group in scenario.groups[1:]:
            for sock, _ in open_group(group, server.address, time.monotonic() + SETUP_LIMIT_S):
                stack.enter_context(closing(sock))
        with closing(dial(server.address)) as sock, probe_file(data) as fd:
            for limit_s in (min(WARM_UP_S, seconds), seconds):  # what the first takes does not count
                puts.clear()
                syncs.clear()
                used_s = server.cpu_s()
                give_up_at = time.monotonic() + limit_s
                while time.monotonic() < give_up_at or len(puts) < LONE_PUTS_MIN:
                    start = time.perf_counter_ns()
                    sock.sendall(job)
                    reply = sock.recv(100)
                    puts.append(time.perf_counter_ns() - start)
                    if not reply.startswith(b"INSERTED "):
                        raise LoadError(f"a put was answered with {reply!r}")
                    start = time.perf_counter_ns()
                    os.pwrite(fd, b"x" * PROBE_BYTES, len(syncs) * PROBE_BYTES % PROBE_FILE_BYTES)
                    os.fdatasync(fd)
                    syncs.append(time.perf_counter_ns() - start)
            used_s = server.cpu_s() - used_s
        sample = Sample(commands=len(puts), peak_bytes=server.memory_bytes()[1])
    put_us, sync_us = (sorted(times)[len(times) // 2] / 1e3 for times in (puts, syncs))
    sample.figures = {"p50_us": put_us, "sync_us": sync_us, "over_sync_us": put_us - sync_us}
    late: tuple[tuple[Figure, float], ...] = (("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1))
    sample.figures |= {each: sorted(puts)[int(len(puts) * share) - 1] / 1e3 for each, share in late}
    sample.figures["cpu_us"] = used_s / len(puts) * 1e6
    return sample


def measure_start(contestant: Contestant, scenario: Scenario, _seconds: float, data: Path) -> Sample:
    """A server that is started, answers one command, and is ended."""
    with running(contestant.command, contestant.args(scenario), data) as server:
        return Sample(figures={"start_ms": server.started_s * 1e3}, peak_bytes=server.memory_bytes()[1])


def measure_replay(contestant: Contestant, scenario: Scenario, seconds: float, data: Path) -> Sample:
    """The start of a server that finds what the scenario's load left in its log."""
    with running(contestant.command, contestant.args(scenario), data) as server:
        load_at(server, scenario, seconds)
    return measure_start(contestant, scenario, seconds, data)


MEASURES: dict[Measure, Callable[[Contestant, Scenario, float, Path], Sample]] = {
    "load": measure_load,
    "start": measure_start,
    "replay": measure_replay,
    "lone": measure_lone,
    "lone-apart": partial(measure_lone, place=apart),
}


def take_sample(contestant: Contestant, scenario: Scenario, seconds: float, data_root: Path | None) -> Sample:
    """One sample, in a directory of its own that is empty before and gone after."""
    with tempfile.TemporaryDirectory(prefix="beanpole-bench-data-", dir=data_root) as data:
        return MEASURES[scenario.measure](contestant, scenario, scenario.seconds or seconds, Path(data))


@contextmanager
def probe_file(directory: Path) -> Iterator[int]:
    """The descriptor of a file that was written before: its space, and so its metadata, stay as they are."""
    path = directory / "fdatasync-probe"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.pwrite(fd, bytes(PROBE_FILE_BYTES), 0)
        os.fsync(fd)
        yield fd
    finally:
        os.close(fd)
        path.unlink()
