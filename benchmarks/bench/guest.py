"""Measures a server that somebody else runs, as a guest: only in tubes of its own, which are empty and gone afterwards.

It looks first and refuses to begin where it would not be welcome: a server that drains, bodies that are too large, or a
name for its tubes that a tube begins with already. Jobs that a cycle leaves behind are bounded by their number and
bytes, as they are in the memory of a server that others need; a run ends early when there are that many. However it
ends, connections are closed, which gives back what they hold, and then what is left is taken out and deleted.
"""

import secrets
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass

from beanpole.client import Backoff, Client
from beanpole.client.session import DEFAULT_TUBE
from beanpole.errors import BeanpoleError, NotFoundError, TimedOutError
from benchmarks.bench.dial import ANSWER_TIMEOUT_S, SetupError, allow_descriptors, open_group, tubes_of
from benchmarks.bench.load import Load
from benchmarks.bench.measure import SETUP_LIMIT_S, SPARE_DESCRIPTORS, WARM_UP_S
from benchmarks.bench.plan import Group
from benchmarks.bench.report import BUSY, number
from benchmarks.bench.server import Address, Server

LEFT_JOBS_MAX = 1_000_000
"""Jobs that a cycle without a delete may leave behind until the end."""
LEFT_BYTES_MAX = 256 * 1024 * 1024
"""Bytes that these may have, with what a job itself takes."""
JOB_BYTES = 300
"""About what a server needs for a job besides its body."""

CLEAN_UP_LIMIT_S = 120.0
"""How long it may take to delete what is left."""
CLEAN_UP_PAUSE_S = 0.01
"""Between two looks whether closed connections have given back what they held."""
CLEAN_UP_COMMANDS = 500
"""Commands of a round trip of that."""

STATES = ("ready", "reserved", "delayed", "buried")


@dataclass(frozen=True)
class Measured:
    """The result of a load. Latencies are from sending a batch of commands to reading the reply of each."""

    seconds: float
    jobs: int
    jobs_per_s: float
    commands_per_s: float
    p50_us: float
    p99_us: float
    p999_us: float
    generator_busy: float
    """Share of a core that we used ourselves; near 1, the rates are lower bounds."""
    server_cpu_us: float | None = None
    """Processor time of the server for a command; None: nobody said which process it is."""

    def as_text(self) -> str:
        """For people, a line each."""
        latencies = {"p50": self.p50_us, "p99": self.p99_us, "p99.9": self.p999_us}
        lines = [
            f"jobs/s         {number(self.jobs_per_s)}",
            f"commands/s     {number(self.commands_per_s)}",
            "latency        " + ", ".join(f"{name} {number(value)} µs" for name, value in latencies.items()),
        ]
        if self.server_cpu_us is not None:
            lines.append(f"server CPU     {number(self.server_cpu_us)} µs a command")
        if self.generator_busy >= BUSY:
            lines.append("The load generator was at its limit: the rates are lower bounds.")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return asdict(self)


def new_name() -> str:
    """What the names of the tubes of a run begin with: no other run has it."""
    return f"beanpole-bench-{secrets.token_hex(4)}"


def measure(address: Address, group: Group, seconds: float, pid: int = 0) -> Measured:
    """Drives a load, for so long or until it has left enough behind. The group's name is that of its tubes.

    Raises SetupError, LoadError, UnexpectedReplyError or OSError; the tubes are cleaned up all the same, if possible.
    """
    allow_descriptors(group.connections + SPARE_DESCRIPTORS)
    with client_of(address) as client:
        look_first(client, group)
    server = Server(pid, address, 0.0) if pid else None
    with cleaned_up(address, group), closing(Load()) as load:
        deadline = time.monotonic() + SETUP_LIMIT_S
        load.add(group, ((polite(sock), tubes) for sock, tubes in open_group(group, address, deadline)))
        load.fill_held(deadline - time.monotonic())
        most = commands_max(group)
        load.run(min(WARM_UP_S, seconds), most // 10)
        before_s = server.cpu_s() if server else 0.0
        run_s, own_cpu_s = load.run(seconds, most)
        cpu_s = server.cpu_s() - before_s if server else 0.0
        latencies = load.groups[0].latencies
        jobs = load.commands // len(group.programme)
        return Measured(
            seconds=run_s,
            jobs=jobs,
            jobs_per_s=jobs / run_s,
            commands_per_s=load.commands / run_s,
            p50_us=latencies.percentile(0.5) / 1e3,
            p99_us=latencies.percentile(0.99) / 1e3,
            p999_us=latencies.percentile(0.999) / 1e3,
            generator_busy=own_cpu_s / run_s,
            server_cpu_us=cpu_s / load.commands * 1e6 if server else None,
        )


def polite(sock: socket.socket) -> socket.socket:
    """A connection that ends as others do, not with a reset, about each of which beanstalkd complains."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    return sock


def commands_max(group: Group) -> int:
    """The commands after which a load has left enough behind; 0: it leaves nothing."""
    if "d" in group.programme:
        return 0
    jobs = min(LEFT_JOBS_MAX, LEFT_BYTES_MAX // (group.body_bytes + JOB_BYTES))
    return max(jobs * len(group.programme), 10)


def client_of(address: Address, watch: Iterable[str] = (DEFAULT_TUBE,)) -> Client[bytes]:
    """A client for what is not measured."""
    backoff = Backoff(attempts=1)
    return Client(
        address,
        None,
        watch=watch,
        timeout=ANSWER_TIMEOUT_S,
        connect_timeout=ANSWER_TIMEOUT_S,
        backoff=backoff,
        patience=0,
    )


def look_first(client: Client[bytes], group: Group) -> None:
    """Raises SetupError where the load would do harm, or could not run."""
    stats = client.stats()
    if stats.draining:
        raise SetupError("the server drains: it takes no jobs")
    if group.body_bytes > stats.max_job_size:
        raise SetupError(
            f"bodies of {group.body_bytes} bytes are too large for the server: {stats.max_job_size} at most"
        )
    taken = next((name for name in client.tubes() if name.startswith(group.name)), None)
    if taken is not None:
        raise SetupError(f"the tube {taken} begins with {group.name}: choose a name that is nobody's")


# --- After ------------------------------------------------------------------------------------------------------------


@contextmanager
def cleaned_up(address: Address, group: Group) -> Iterator[None]:
    """Leaves none of the group's jobs behind, whatever ends the block."""
    try:
        yield
    finally:
        tubes = sorted({tube.decode() for index in range(group.connections) for tube in tubes_of(group, index)})
        try:
            with client_of(address, tubes) as client:
                clean_up(client, tubes, time.monotonic() + CLEAN_UP_LIMIT_S)
        except (BeanpoleError, OSError) as error:
            raise SetupError(f"jobs may be left in the tubes {group.name}*: {error}") from error


def clean_up(client: Client[bytes], tubes: list[str], deadline: float) -> None:
    """Deletes every job in some tubes, which the client watches, also those that closed connections give back soon."""
    while True:
        with suppress(TimedOutError):
            while True:
                client.delete_many(client.reserve_many(CLEAN_UP_COMMANDS, timeout=0))
        left = tubes_with_jobs(client, tubes)
        if not left:
            return
        if time.monotonic() > deadline:
            raise SetupError(f"jobs are left in {left[0]} and its like: delete them")
        # A server without memory buries what it is given; and closed connections still hold what it has not noticed.
        with client.pipeline() as pipeline:
            for tube in left:
                pipeline.use(tube)
                pipeline.kick(1_000_000)
        time.sleep(CLEAN_UP_PAUSE_S)


def tubes_with_jobs(client: Client[bytes], tubes: list[str]) -> list[str]:
    """The tubes that have a job, in whatever state."""
    with client.pipeline(raise_errors=False) as pipeline:
        asked = [pipeline.stats_tube(tube) for tube in tubes]
    found = [each.result() for each in asked if not isinstance(each.error, NotFoundError)]
    return [each.name for each in found if any(each[f"current-jobs-{state}"] for state in STATES)]
