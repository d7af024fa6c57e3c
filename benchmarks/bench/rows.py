"""The table that the server in memory has to meet, beside beanstalkd in the same run."""

from dataclasses import replace

from benchmarks.bench.plan import Ask, Group, Row, Scenario

CYCLE_1 = Group(connections=50, in_flight=1)
CYCLE_16 = Group(connections=50, in_flight=16)
CYCLE_100 = Group(connections=50, in_flight=100)
LONE = Group(connections=1, in_flight=1)
HOLDER = Group(connections=1, in_flight=100)
PRODUCER = Group(connections=1, in_flight=100, programme="p")
IDLE = Group(connections=10_000, programme="", name="idle")
MOVER = Group(connections=1, in_flight=16, body_bytes=60_000, counted=False, name="mover")


def one(group: Group) -> Scenario:
    """A scenario of one group."""
    return Scenario(groups=(group,))


ROWS = (
    Row("cycle-50x1", "put+reserve+delete, 50 connections, 1 in flight", "cpu_us", one(CYCLE_1), Ask(0.80)),
    Row("cycle-50x16", "the same, 16 in flight", "cpu_us", one(CYCLE_16), Ask(0.10)),
    Row("cycle-50x100", "the same, 100 in flight", "cpu_us", one(CYCLE_100), Ask(0.06)),
    Row("latency-1x1", "one connection, 1 in flight", "p50_us", one(LONE), Ask(1.0)),
    Row(
        "tubes-10000",
        "10 000 other tubes, 50 connections, 16 in flight, against none",
        "cpu_us",
        replace(one(CYCLE_16), other_tubes=10_000),
        Ask(1.2, of="own"),
        baseline=one(CYCLE_16),
    ),
    Row(
        "held-100000",
        "delete with 100 000 jobs reserved by the connection, against 1",
        "cpu_delete_us",
        one(replace(HOLDER, held=100_000)),
        Ask(1.3, of="own"),
        baseline=one(replace(HOLDER, held=1)),
    ),
    Row(
        "idle-10000",
        "10 000 idle connections beside 50 with 16 in flight, against none",
        "cpu_us",
        Scenario(groups=(CYCLE_16, IDLE)),
        Ask(1.1, of="own"),
        baseline=one(CYCLE_16),
    ),
    Row(
        "memory-1m",
        "1 000 000 ready jobs of 100 bytes",
        "bytes_per_job",
        replace(one(PRODUCER), operations=1_000_000),
        Ask(1.0),
        quick=replace(one(PRODUCER), operations=100_000),
        rounds_max=1,
    ),
    Row(
        "start",
        "from exec to the first answered command",
        "start_ms",
        Scenario(measure="start"),
        Ask(150, of="absolute"),
    ),
    Row(
        "others-60000",
        "p99 of 50 others while one client moves 60 000-byte bodies, 16 in flight",
        "p99_us",
        Scenario(groups=(CYCLE_1, MOVER)),
        Ask(1.0),
    ),
    Row(
        "others-60000x1",
        "the same, the big bodies one at a time",
        "p99_us",
        Scenario(groups=(CYCLE_1, replace(MOVER, in_flight=1))),
        Ask(1.0),
    ),
)
