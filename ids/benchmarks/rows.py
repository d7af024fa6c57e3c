"""The rows of the benchmark. A row is a function from a `Bench` to the figures that it prints.

What is compared runs in turn, round by round, and a ratio is the median of those of the rounds: what else the machine
does then meets all of them alike.
"""

import json
import os
import signal
import socket
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.folders import NAMED, change_template, fill, many_rules, write_rules
from benchmarks.programs import (
    ROOT,
    Load,
    Server,
    echo,
    finish_load,
    folder_of_a_server,
    load,
    on_one_core,
    serving,
    start_load,
    stop_load,
)

T = TypeVar("T")

FLOODER = "-b 127.0.0.2"
QUIET = "-r 1000 -t 120 -f 50000000"
"""A client that asks 1000 times a second, until it is ended."""

LIMITED = """
[[rule]]
name = "limited"
template = "O{year:02}{month:02}{day:02}{counter:012}"
cycle = "day"
batch = 500000

[[limit]]
rule = "limited"
app = "*"
rate = 1000000000
"""
"""A rule like the template, with a limit that no load reaches."""

COUNT = 1000
COMMITS_S = 2.0
"""The least time in which commits are counted: a busy disk may take a tenth of a second for one."""

MANY_RULES = 10_000
RELOAD_TIMEOUT_S = 120
MIB = 1 << 20


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    value: float
    unit: str = ""
    at_most: float = 0
    """What is asked; 0 if there is another bound, or none."""

    at_least: float = 0
    details: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it is as asked."""
        return (not self.at_most or self.value <= self.at_most) and self.value >= self.at_least


@dataclass(frozen=True)
class Bench:
    """How it is measured."""

    seconds: float
    rounds: int
    theirs: Path | None
    """Another checkout, whose service is measured in turn with ours."""

    stack: ExitStack

    def server(self, rules: str = "", checkout: Path = ROOT, commit_ms: int = 0, more: str = "") -> Server:
        """A service that runs until the row ends."""
        folder = self.stack.enter_context(folder_of_a_server())
        write_rules(folder, rules, more)
        return self.stack.enter_context(serving(folder, checkout, commit_ms))

    def servers(self) -> dict[str, Server]:
        """Ours, and theirs if there is one."""
        found = {"ours": self.server()}
        return found | ({"theirs": self.server(checkout=self.theirs)} if self.theirs else {})

    def checkouts(self) -> dict[str, Path]:
        """Ours, and theirs if there is one, by what stands behind a figure's name."""
        return {"": ROOT} | ({", theirs": self.theirs} if self.theirs else {})

    def echo(self) -> dict[str, Server]:
        """The C echo."""
        return {"echo": self.stack.enter_context(echo())}

    def in_turn(self, subjects: Mapping[str, Callable[[], Load]]) -> dict[str, list[Load]]:
        """What the loads have measured, round by round."""
        found: dict[str, list[Load]] = {name: [] for name in subjects}
        for _ in range(self.rounds):
            for name, subject in subjects.items():
                found[name].append(subject())
        return found


def median(loads: list[Load], value: Callable[[Load], float]) -> float:
    """The median of a figure over rounds."""
    return statistics.median(map(value, loads))


def ratio(some: list[Load], others: list[Load], value: Callable[[Load], float]) -> float:
    """The median of the ratios of rounds."""
    return statistics.median(value(one) / value(other) for one, other in zip(some, others, strict=True))


def get(rule: str, **fields: object) -> str:
    """A request."""
    more = "".join(f',"{name}":{value}' for name, value in fields.items())
    return f'{{"action":"get","app_name":"shop","rule_name":"{rule}"{more},"seq":########}}'


def post(rule: str, port: int) -> str:
    """The same over HTTP."""
    return f"POST /v1/ids/{rule}/shop HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"


def warm(server: Server, request: str) -> None:
    """Have the counter loaded and its first range reserved."""
    if not server.is_echo:
        found = load(server, request, "-t 20 -n 100")
        assert found.done == 100, "the service does not answer"


def timed(bench: Bench, server: Server, request: str, options: str) -> Callable[[], Load]:
    """A load that can be run again and again; the first has been answered."""
    warm(server, request)
    return lambda: load(server, request, f"-t {bench.seconds} {options}")


# --- CPU and rates ----------------------------------------------------------------------------------------------------


def cpu(bench: Bench, what: str, options: str, at_most: float, *, is_pinned: bool = False) -> Iterator[Figure]:
    """CPU a request as a multiple of the echo's."""
    request = get("template")
    servers = bench.servers() | bench.echo()
    if is_pinned:
        bench.stack.enter_context(on_one_core(servers.values()))
    runs = bench.in_turn({name: timed(bench, each, request, options) for name, each in servers.items()})
    for name in servers:
        if name != "echo":
            mine, other = (median(runs[each], lambda one: one.cpu_us) for each in (name, "echo"))
            details = f"{mine:.1f} µs, the echo {other:.1f} µs; {median(runs[name], lambda one: one.rate):,.0f}/s"
            of_all = f"CPU a request, × echo, {what}" + (", theirs" if name == "theirs" else "")
            value = ratio(runs[name], runs["echo"], lambda one: one.cpu_us)
            yield Figure(of_all, value, "×", at_most=0 if name == "theirs" else at_most, details=details)


def one(bench: Bench) -> Iterator[Figure]:
    """One request under way."""
    yield from cpu(bench, "one under way", "-s 1 -w 1", 3, is_pinned=True)


def deep(bench: Bench) -> Iterator[Figure]:
    """32 requests under way."""
    yield from cpu(bench, "32 under way", "-s 1 -w 32", 3)


def four(bench: Bench) -> Iterator[Figure]:
    """Four clients with four requests under way each."""
    request = get("template")
    servers = bench.servers() | bench.echo()
    runs = bench.in_turn({name: timed(bench, each, request, "-s 4 -w 4") for name, each in servers.items()})
    details = "/s, ".join(f"{name} {median(found, lambda one: one.rate):,.0f}" for name, found in runs.items()) + "/s"
    yield Figure(
        "requests/s, 4 clients × 4, × echo",
        ratio(runs["ours"], runs["echo"], lambda one: one.rate),
        "×",
        details=details,
    )
    if "theirs" in runs:
        value = ratio(runs["ours"], runs["theirs"], lambda one: one.rate)
        yield Figure("requests/s, 4 clients × 4, × theirs", value, "×", at_least=3)


def beside_template(bench: Bench, rule: str, what: str, at_most: float = 0) -> Iterator[Figure]:
    """CPU a request of a rule, as a multiple of a template's."""
    for name, server in bench.servers().items():
        runs = bench.in_turn({each: timed(bench, server, get(each), "-s 4 -w 4") for each in (rule, "template")})
        value = ratio(runs[rule], runs["template"], lambda one: one.cpu_us)
        mine, other = (median(found, lambda one: one.cpu_us) for found in runs.values())
        of_all = f"CPU a request, {what}, × template" + (", theirs" if name == "theirs" else "")
        yield Figure(of_all, value, "×", 0 if name == "theirs" else at_most, details=f"{mine:.1f} µs, {other:.1f} µs")


def lua(bench: Bench) -> Iterator[Figure]:
    """A rule in Lua."""
    yield from beside_template(bench, "lua", "Lua", 1.5)


def snowflake(bench: Bench) -> Iterator[Figure]:
    """A rule that begins with the time."""
    yield from beside_template(bench, "snowflake", "snowflake")


def limited(bench: Bench) -> Iterator[Figure]:
    """Requests under a rate of each application, and with a cookie."""
    server = bench.server(LIMITED)
    runs = bench.in_turn({each: timed(bench, server, get(each), "-s 4 -w 4") for each in ("limited", "template")})
    yield times("CPU a request under a limit, × one under none", runs["limited"], runs["template"], 1.5)
    server = bench.server(more="trusted_networks = []")
    requests = {"shown": get("template", cookie=f'"{cookie_of(server)}"'), "none": get("template")}
    warm(server, requests["shown"])  # the name is new, so the first request needs a cookie
    runs = bench.in_turn({name: timed(bench, server, each, "-s 4 -w 4") for name, each in requests.items()})
    yield times("CPU a request with a cookie, × one without", runs["shown"], runs["none"], 1.5)


def times(what: str, some: list[Load], others: list[Load], at_most: float) -> Figure:
    """How much more CPU requests take than others."""
    mine, other = (median(each, lambda one: one.cpu_us) for each in (some, others))
    value = ratio(some, others, lambda one: one.cpu_us)
    return Figure(what, value, "×", at_most, details=f"{mine:.1f} µs, {other:.1f} µs")


def cookie_of(server: Server) -> str:
    """The cookie of our address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(RELOAD_TIMEOUT_S)
        client.connect(("127.0.0.1", server.port))
        client.send(get("template", count=2).encode().replace(b"########", b"1"))
        return str(json.loads(client.recv(65_536))["cookie"])


def count(bench: Bench) -> Iterator[Figure]:
    """Many numbers a request."""
    for rule in ("template", "lua"):
        request = get(rule, count=COUNT)
        runs = bench.in_turn({name: timed(bench, each, request, "-s 1 -w 2") for name, each in bench.servers().items()})
        for name, found in runs.items():
            value, rate = median(found, lambda one: one.cpu_us) / COUNT, median(found, lambda one: one.rate) * COUNT
            of_all = f"count {COUNT}, {rule}: CPU a number" + (", theirs" if name == "theirs" else "")
            yield Figure(of_all, value * 1000, "ns", details=f"{rate:,.0f} numbers/s")
        if "theirs" in runs:
            value = ratio(runs["ours"], runs["theirs"], lambda one: one.cpu_us)
            yield Figure(f"count {COUNT}, {rule}: CPU, × theirs", value, "×", at_most=0.2 if rule == "template" else 0)


def http(bench: Bench) -> Iterator[Figure]:
    """HTTP over connections that stay open, beside UDP."""
    for name, server in bench.servers().items():
        requests = {"http": post("template", server.http_port), "udp": get("template")}
        runs = bench.in_turn({each: timed(bench, server, text, "-s 4 -w 1") for each, text in requests.items()})
        value = ratio(runs["http"], runs["udp"], lambda one: one.cpu_us)
        mine, other = (median(found, lambda one: one.cpu_us) for found in runs.values())
        of_all = "CPU a request, HTTP keep-alive, × UDP" + (", theirs" if name == "theirs" else "")
        yield Figure(of_all, value, "×", details=f"{mine:.1f} µs, {other:.1f} µs")


def half(bench: Bench) -> Iterator[Figure]:
    """Latency at half of the greatest rate."""
    request = get("template")
    for name, server in bench.servers().items():
        other = bench.echo()["echo"]
        greatest = median(bench.in_turn({name: timed(bench, server, request, "-s 4 -w 4")})[name], lambda one: one.rate)
        options = f"-s 4 -r {greatest / 2}"
        runs = bench.in_turn(
            {each: timed(bench, of, request, options) for each, of in (("it", server), ("echo", other))}
        )
        mine, its = (median(found, lambda one: one.p99_us) for found in runs.values())
        details = f"{mine:.0f} µs, the echo {its:.0f} µs, both at {greatest / 2:,.0f}/s"
        of_all = "p99 at half of the greatest rate, × echo" + (", theirs" if name == "theirs" else "")
        value = ratio(runs["it"], runs["echo"], lambda one: one.p99_us)
        yield Figure(of_all, value, "×", 0 if name == "theirs" else 5, details=details)


def slow(bench: Bench) -> Iterator[Figure]:
    """A database that is 20 ms slower."""
    request = get("template")
    servers = {"slow": bench.server(commit_ms=20), "fast": bench.server()}
    runs = bench.in_turn({name: timed(bench, each, request, "-s 4 -w 4") for name, each in servers.items()})
    p99_us = {name: median(found, lambda one: one.p99_us) for name, found in runs.items()}
    value = ratio(runs["slow"], runs["fast"], lambda one: one.rate)
    details = f"p99 {p99_us['slow']:.0f} µs, {p99_us['fast']:.0f} µs"
    yield Figure("requests/s, database + 20 ms, × without", value, "×", details=details)


def processes(bench: Bench) -> Iterator[Figure]:
    """Two processes, which need a core each, beside one; the client needs another."""
    servers = {"2": bench.server(more="processes = 2"), "1": bench.server()}
    options = "-s 64 -w 4"
    runs = bench.in_turn({name: timed(bench, each, get("template"), options) for name, each in servers.items()})
    details = ", ".join(f"{name}: {median(found, lambda one: one.rate):,.0f}/s" for name, found in runs.items())
    value = ratio(runs["2"], runs["1"], lambda one: one.rate)
    yield Figure(f"requests/s of 2 processes, × 1, {os.cpu_count()} cores", value, "×", details=details)


def batch(bench: Bench) -> Iterator[Figure]:
    """A commit for each number."""
    bench = replace(bench, seconds=max(bench.seconds, COMMITS_S))
    for name, server in bench.servers().items():
        # Not in turn: what 64 clients have left behind would keep the one waiting.
        runs = {}
        for each in ("1", "64"):
            runs |= bench.in_turn({each: timed(bench, server, get("strict"), f"-s {each}")})
        value = ratio(runs["64"], runs["1"], lambda one: one.rate)
        of_all = "batch = 1: requests/s of 64 clients, × one's" + (", theirs" if name == "theirs" else "")
        details = ", ".join(
            f"{clients}: {median(found, lambda one: one.rate):,.0f}/s" for clients, found in runs.items()
        )
        yield Figure(of_all, value, "×", at_least=0 if name == "theirs" else 20, details=details)


# --- One client beside others -----------------------------------------------------------------------------------------


def quiet_beside(server: Server, rule: str, work: Callable[[], T]) -> tuple[Load, T]:
    """What a quiet client measures while something else is done, and what that returns."""
    warm(server, get(rule))
    quiet = start_load(server, get(rule), QUIET)
    try:
        result = work()
    finally:
        found = stop_load(quiet)
    return found, result


def beside_load(server: Server, rule: str, request: str, options: str) -> tuple[Load, str]:
    """What a quiet client measures beside another one at another address, and how both fared."""
    quiet, other = quiet_beside(server, rule, lambda: finish_load(start_load(server, request, f"{FLOODER} {options}")))
    fared = f"the other: {other.sent:,} sent, {other.done:,} answered, {other.refused:,} of these refused"
    return quiet, f"{quiet.lost} of {quiet.sent} lost; {fared}"


def flood(bench: Bench) -> Iterator[Figure]:
    """A client that sends as much as it can, from another address."""
    for name, server in bench.servers().items():
        floods = (
            ("", get("template"), "-s 64 -r 1e9"),
            (" of counts", get("template", count=COUNT), "-s 64 -r 1e9"),
            (" over HTTP", post("template", server.http_port), "-s 100"),
        )
        for what, request, options in floods:
            quiet, details = beside_load(server, "template", request, f"{options} -t {2 * bench.seconds}")
            of_all = f"a client beside a flood{what}: p99" + (", theirs" if name == "theirs" else "")
            yield Figure(of_all, quiet.p99_us / 1000, "ms", 0 if name == "theirs" else 20, details=details)


def names(bench: Bench) -> Iterator[Figure]:
    """4000 new names in half a second."""
    for name, server in bench.servers().items():
        quiet, details = beside_load(server, "small", NAMED.replace("RULE", "small"), "-r 8000 -n 4000 -s 16 -t 0.6")
        of_all = "a client beside 4000 new names: p99" + (", theirs" if name == "theirs" else "")
        yield Figure(of_all, quiet.p99_us / 1000, "ms", 0 if name == "theirs" else 50, details=details)


def reloaded_s(server: Server) -> float:
    """Reload rules that have changed; return how long that took."""
    begun = time.monotonic()
    server.process.send_signal(signal.SIGHUP)
    while '"reloaded"' not in server.messages():
        assert "refused" not in server.messages(), server.messages()
        assert time.monotonic() < begun + RELOAD_TIMEOUT_S, "the reload does not end"
        time.sleep(0.01)
    return time.monotonic() - begun


def beside_reload(server: Server, what: str, name: str) -> Iterator[Figure]:
    """How long a reload takes, and what a quiet client measures beside it."""
    quiet, seconds = quiet_beside(server, "template", partial(reloaded_s, server))
    yield Figure(f"a reload {what}{name}", seconds, "s", 0 if name else 2)
    details = f"greatest {quiet.max_us / 1000:.1f} ms, {quiet.lost} of {quiet.sent} lost"
    yield Figure(f"a client beside it: p99{name}", quiet.p99_us / 1000, "ms", 0 if name else 10, details=details)


def reload(bench: Bench) -> Iterator[Figure]:
    """Many rules are read at a start, and again when all have changed."""
    for name, checkout in bench.checkouts().items():
        begun = time.monotonic()
        server = bench.server(many_rules(MANY_RULES, 1000), checkout)
        yield Figure(f"a start with {MANY_RULES} rules{name}", time.monotonic() - begun, "s", 0 if name else 2)
        write_rules(server.folder, many_rules(MANY_RULES, 2000))
        yield from beside_reload(server, f"with {MANY_RULES} changed rules", name)


# --- Many counters ----------------------------------------------------------------------------------------------------


def filled(bench: Bench, counters: int, checkout: Path) -> Server:
    """A service that starts with a database of many counters of a rule."""
    folder = bench.stack.enter_context(folder_of_a_server())
    write_rules(folder)
    with serving(folder, checkout) as server:
        warm(server, get("small"))
    fill(folder, counters)
    return bench.stack.enter_context(serving(folder, checkout))


def restart(bench: Bench) -> Iterator[Figure]:
    """2000 applications ask at once after a start."""
    for name, checkout in bench.checkouts().items():
        server = filled(bench, 2000, checkout)
        found = load(server, NAMED.replace("RULE", "small"), "-s 100 -w 20 -n 2000 -t 60")
        details = f"{found.done} answered, {found.refused} of them refused, p99 {found.p99_us / 1000:.0f} ms"
        yield Figure(f"2000 applications after a restart{name}", found.seconds, "s", 0 if name else 1, details=details)


def memory(bench: Bench) -> Iterator[Figure]:
    """100 000 counters, and a reload with another template of theirs."""
    for name, checkout in bench.checkouts().items():
        server = filled(bench, 99_990, checkout)
        base = server.resident_bytes() / MIB
        found = load(server, NAMED.replace("RULE", "small"), "-s 16 -w 16 -n 99990 -t 300")
        value = server.resident_bytes() / MIB
        details = (
            f"{base:.0f} MiB before; {found.done} answered in {found.seconds:.1f} s, {found.refused} of them refused"
        )
        yield Figure(f"memory with 100 000 counters{name}", value, "MiB", 0 if name else 100e6 / MIB, details=details)
        taken = [scrape_s(server) for _ in range(bench.rounds)]
        yield Figure(f"/metrics with them{name}", statistics.median(taken) * 1000, "ms", 0 if name else 200)
        change_template(server.folder, "small")
        yield from beside_reload(server, "with 100 000 counters", name)
        value = server.resident_bytes() / MIB
        yield Figure(f"memory after it{name}", value, "MiB", 0 if name else 100e6 / MIB)
        load(server, NAMED.replace("RULE", "small"), "-s 16 -w 16 -n 99990 -t 300")  # the reload gave their ranges up
        begun = time.monotonic()
        server.stop()
        yield Figure(f"a stop with them{name}", time.monotonic() - begun, "s", 0 if name else 2)


def scrape_s(server: Server) -> float:
    """Seconds that a page of metrics takes."""
    begun = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics") as page:
        assert b"beanpole_ids_counters" in page.read()
    return time.monotonic() - begun


ROWS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    each.__name__: each
    for each in (
        one,
        deep,
        four,
        lua,
        snowflake,
        limited,
        count,
        http,
        half,
        slow,
        processes,
        batch,
        flood,
        names,
        reload,
        restart,
        memory,
    )
}
