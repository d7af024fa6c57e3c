"""The table that the server with a log has to meet: the same load with `-b`, on the same disk."""

from dataclasses import replace

from benchmarks.bench.plan import Ask, Row, Scenario
from benchmarks.bench.rows import CYCLE_16, LONE, one

ALWAYS = ("-b", "{data}", "-f", "0")
"""Synced before it is acknowledged: the same flags mean it to both servers."""
EVERY_50_MS = ("-b", "{data}", "-f", "50")
NEVER = ("-b", "{data}", "-F")

PUTS_1 = replace(CYCLE_16, in_flight=1, programme="p")
PUTS_16 = replace(CYCLE_16, programme="p")


def always(scenario: Scenario) -> Scenario:
    """The scenario with every put on the disk before it is acknowledged."""
    return replace(scenario, args_ours=ALWAYS, args_theirs=ALWAYS)


LONE_PUT = always(one(replace(LONE, programme="p")))

ROWS = (
    Row(
        "durable-put-50x1",
        "always: puts, 50 connections, 1 in flight",
        "rate",
        always(one(PUTS_1)),
        Ask(4, at_most=False),
    ),
    Row(
        "durable-put-50x16",
        "always: puts, 50 connections, 16 in flight",
        "rate",
        always(one(PUTS_16)),
        Ask(25, at_most=False),
    ),
    Row(
        "durable-cycle-50x16",
        "always: put+reserve+delete, 50 connections, 16 in flight, against no log",
        "rate",
        always(one(CYCLE_16)),
        Ask(0.5, of="own", at_most=False),
        baseline=one(CYCLE_16),
    ),
    Row(
        "durable-late-50x1",
        "always against beanstalkd -f 50: puts, 50 connections, 1 in flight",
        "rate",
        replace(one(PUTS_1), args_ours=ALWAYS, args_theirs=EVERY_50_MS),
        Ask(1.0, at_most=False),
    ),
    Row(
        "durable-lone-put",
        "always: one lone put, above one fdatasync",
        "over_sync_us",
        replace(LONE_PUT, measure="lone"),
        Ask(100, of="absolute"),
    ),
    Row(
        "durable-lone-put-apart",
        "the same, server and client bound to a core each",
        "over_sync_us",
        replace(LONE_PUT, measure="lone-apart"),
        Ask(100, of="absolute"),
    ),
    Row(
        "durable-replay-1m",
        "start with a log of 1 000 000 jobs of 100 bytes",
        "start_ms",
        replace(one(PUTS_16), measure="replay", operations=1_000_000, args_ours=NEVER, args_theirs=NEVER),
        Ask(1.0),
        quick=replace(one(PUTS_16), measure="replay", operations=100_000, args_ours=NEVER, args_theirs=NEVER),
        rounds_max=3,
    ),
    Row(
        "durable-disk",
        "put and delete of 100-byte jobs",
        "disk_bytes",
        always(one(replace(CYCLE_16, programme="pd"))),
        Ask(1.0),
    ),
)
