"""``beanpole doctor``: what is wrong with a server, and what to do. The checks are in `beanpole.observe`."""

import asyncio
import re
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from beanpole.cli.common import EXIT_CODES, Output, Server, verb
from beanpole.cli.inspect import async_client, interval, now_ns
from beanpole.cli.quantities import notes_of
from beanpole.errors import ExitCode
from beanpole.observe.units import count, duration, plural

if TYPE_CHECKING:
    from beanpole.client import AsyncClient
    from beanpole.observe.findings import Finding, Visit
    from beanpole.observe.sampling import Sample
    from beanpole.observe.shards import ShardSample

EVIDENCE_LINES = 8  # that people are shown of one finding; --json has all


@verb("doctor", maps=True)
@interval(2, "Time between the two samples.")
def doctor(server: Server, out: Output, interval_s: float) -> ExitCode:
    """Check the health of a server, explain what is wrong, and say what to do.

    The server is sampled twice. Errors and warnings make the exit code 1; notes do not. Nothing is changed.
    """
    from beanpole.observe.doctor import diagnose, is_healthy

    seen = asyncio.run(visit_server(server, interval_s))
    found = diagnose(seen)
    healthy = is_healthy(found)
    if out.as_json:
        out.record(as_json(server, seen, found, healthy=healthy), "")
    else:
        say(server, out, seen, found)
    return ExitCode.OK if healthy else ExitCode.FAILED


EPILOG = EXIT_CODES.replace("0    done", "0    healthy: nothing, or nothing but notes").replace(
    "1    ", "1    there are warnings or errors; or "
)
doctor.epilog = notes_of(doctor) + EPILOG


async def visit_server(server: Server, interval_s: float) -> "Visit":
    from beanpole.observe.doctor import visit

    look = partial(visit, now_ns=now_ns, wait=lambda: asyncio.sleep(interval_s), files_max=files_max)
    async with async_client(server) as client:
        if server.map_file is None:
            return await look(client)
        from beanpole.cli.shards import ask_all
        from beanpole.observe.shards import Review, take_shard_sample
        from beanpole.shards.file import load
        from beanpole.shards.map import Places

        async def look_at_shard(client: "AsyncClient[bytes]") -> "tuple[Visit, ShardSample]":
            return await look(client), await take_shard_sample(client)

        newest = load(server.map_file)
        whole, (shards, _) = await asyncio.gather(look(client), ask_all(newest, look_at_shard, server.login))
        review = Review(newest, {name: sample for name, (_, sample) in shards.items()})
        # Each shard has two connections of ours: this client's, and that of the router.
        parts = {name: replace(each, own_connections=2) for name, (each, _) in shards.items()}
        whole = replace(whole, shards=parts, own_connections=2 * len(parts), places=Places(newest))
        return replace(whole, misfits=tuple(review.warnings()))


def files_max(sample: "Sample") -> int | None:
    """How many files the server may have open, if its process is on this machine and may be read."""
    pid, hostname = sample.stats.pid, sample.stats.hostname
    if hostname and hostname != socket.gethostname():
        return None
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^Max open files +(\d+)", limits, re.MULTILINE)
    return int(found[1]) if found and (b"bean" in command) else None


def as_json(server: Server, seen: "Visit", found: "list[tuple[str, Finding]]", *, healthy: bool) -> dict[str, object]:
    findings = [
        {
            "check": check,
            "severity": each.severity.name.lower(),
            "summary": each.summary,
            "evidence": each.evidence,
            "tubes": each.tubes,
            "advice": each.advice,
        }
        for check, each in found
    ]
    facts = {"url": str(server), "version": seen.server.version, "uptime": seen.server.uptime}
    return {"healthy": healthy, "server": facts, "seconds": round(seen.seconds, 3), "findings": findings}


def say(server: Server, out: Output, seen: "Visit", found: "list[tuple[str, Finding]]") -> None:
    stats = seen.server
    name = f"beanpole {stats['beanpole-version']}" if "beanpole-version" in stats else f"beanstalkd {stats.version}"
    looked = f"looked at twice, {seen.seconds:.1f} s apart"
    many = plural(len(seen.shards), "shard") if server.map_file else f"up {duration(stats.uptime)}"
    out.prose(f"{server}: {name}, {many}, {plural(len(seen.after.tubes), 'tube')}; {looked}")
    for check, each in found:
        out.prose(f"\n{each.severity.name} {check}: {each.summary}")
        for line in each.evidence[:EVIDENCE_LINES]:
            out.prose(f"    {line}")
        if len(each.evidence) > EVIDENCE_LINES:
            out.prose(f"    and {count(len(each.evidence) - EVIDENCE_LINES)} more")
        out.prose(f"    > {each.advice}")
    names = [each.severity.name.lower() for _, each in found]
    counts = [plural(names.count(name), name) for name in ("error", "warning", "note") if name in names]
    out.prose(f"\n{', '.join(counts)}." if counts else "\nHealthy: nothing was found.")
