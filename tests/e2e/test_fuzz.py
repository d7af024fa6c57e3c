"""Random bytes over many sockets, in random pieces, with random endings; afterwards nothing of it is left.

A failure prints the seed; the same seed sends the same bytes in the same order.
"""

import contextlib
import random
import time

import pytest

from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES
from tests.e2e.process import Client, Process, healthy, wait_until

CONNECTIONS = 30
SECONDS = 2.0
STEPS_MIN, STEPS_MAX = 200, 20_000

WORDS = [
    b"put ", b"reserve", b"reserve-with-timeout ", b"reserve-job ", b"delete ", b"release ", b"bury ", b"kick ",
    b"touch ", b"kick-job ", b"peek ", b"peek-ready", b"peek-delayed", b"peek-buried", b"use ", b"watch ", b"ignore ",
    b"stats", b"stats-job ", b"stats-tube ", b"list-tubes", b"list-tube-used", b"list-tubes-watched", b"pause-tube ",
    b"quit", b"\r\n", b"\r\n", b"\r\n", b"\r", b"\n", b"\0", b" ", b"a", b"b", b"default", b"x" * 300, b"-1", b"1.5",
]  # fmt: skip

TUBES = [b"default", b"a", b"b"]
STATES = [b"ready", b"delayed", b"buried"]
VALUES = {
    b"tube": TUBES,
    b"to": TUBES,
    b"pattern": [b"*", b"a", b"b*"],
    b"state": [*STATES, b"reserved"],
    b"states": STATES,
    b"key": [b"k", b"l", b"\xff=", b"k" * 201],
    b"taken": [b"keep", b"replace"],
    b"until": [b"delete", b"reserve"],
    b"dead": [b"now"],
    b"order": [b"next"],
    b"after": [b"0", b"3", b"a"],
}
DURATIONS = [b"0", b"0", b"0.25", b"1", b"0.0001"]


def number(chance: random.Random) -> bytes:
    """A number, mostly one that means something."""
    return b"%d" % chance.choice([0, 0, 1, 1, 2, 3, chance.randint(0, 300), 65535, 65536, 2**32 - 1, 2**32, 2**64])


def value(chance: random.Random, name: bytes) -> bytes:
    """An argument of an extension, mostly one that is right."""
    if name == b"ids":
        return b" ".join(b"%d" % chance.randint(0, 300) for _ in range(chance.choice([1, 5, 400])))
    if name in {b"bytes", b"id", b"count", b"limit", b"bound", b"pri", b"ttr", b"bodies"}:
        return number(chance)
    return chance.choice(VALUES.get(name, DURATIONS))


def extension(chance: random.Random) -> bytes:
    """An extension, with its body if it has one."""
    verb, words, options = chance.choice(EXTENSIONS)
    line = [verb, *(value(chance, KIND_NAMES[kind]) for kind in words)]
    if body := any(KIND_NAMES[kind] == b"bytes" for kind in words):
        size = chance.choice([0, 5, 70_000])
        line[[KIND_NAMES[kind] for kind in words].index(b"bytes") + 1] = b"%d" % size
    names = [KIND_NAMES[kind] for kind in chance.sample(options, chance.randint(0, len(options)))]
    line += [name + b"=" + value(chance, name) for name in names]
    return b" ".join(line) + b"\r\n" + (chance.choice([b"x", b"\0"]) * size + b"\r\n" if body else b"")


def command(chance: random.Random) -> bytes:
    """A command that mostly is one."""
    if chance.random() < 0.4:
        return extension(chance)
    kind = chance.random()
    if kind < 0.35:
        body = chance.randbytes(chance.choice([0, 1, 10, 1000]))
        pri, delay = chance.randint(0, 3), chance.choice([0, 0, 0, 1])
        return b"put %d %d 1 %d\r\n%b\r\n" % (pri, delay, len(body), body)
    if kind < 0.5:
        return b"reserve-with-timeout 0\r\n"
    if kind < 0.9:
        verb = chance.choice(WORDS[:25])
        if verb.startswith((b"use", b"watch", b"ignore", b"stats-tube", b"pause-tube")):
            return verb + chance.choice([b"a", b"b", b"default"]) + (b" 0" if verb[0] == 112 else b"") + b"\r\n"
        numbers = b" ".join(number(chance) for _ in range({b"release ": 3, b"bury ": 2}.get(verb, 1)))
        return verb + (numbers if verb.endswith(b" ") else b"") + b"\r\n"
    return b"".join(chance.choice(WORDS) for _ in range(chance.randint(1, 6)))


def end(chance: random.Random, client: Client) -> None:
    """Ends a connection in one of the ways in which connections end."""
    how = chance.random()
    if how < 0.4:
        client.reset()
    else:
        if how < 0.7:
            with contextlib.suppress(OSError):  # The server was first.
                client.half_close()
        client.socket.close()


def drive(process: Process, chance: random.Random) -> None:
    """Sends random pieces for a while, and some of them however long that takes."""
    clients: list[Client] = []
    end_at = time.monotonic() + SECONDS
    for step in range(STEPS_MAX):
        if step > STEPS_MIN and time.monotonic() > end_at:
            break
        if len(clients) < CONNECTIONS:
            clients.append(process.connect(wait_accepted=False))
            clients[-1].socket.setblocking(False)
        client = chance.choice(clients)
        data = b"".join(command(chance) for _ in range(chance.randint(1, 8)))
        try:
            client.socket.send(data[: chance.randint(1, len(data))] if chance.random() < 0.5 else data)
            if chance.random() < 0.7:
                client.socket.recv(1 << 16)
        except BlockingIOError:
            pass
        except ConnectionError:  # It sent quit before, for example.
            clients.remove(client)
            client.socket.close()
            continue
        if chance.random() < 0.02:
            clients.remove(client)
            client.socket.setblocking(True)
            end(chance, client)
    for client in clients:
        client.socket.close()


@pytest.mark.long
@pytest.mark.parametrize("flags", [(), ("--one-reply-per-send",)], ids=["default", "one-reply-per-send"])
def test_random_bytes_leave_nothing_behind(flags: tuple[str, ...]) -> None:
    seed = random.SystemRandom().getrandbits(32)
    with healthy(*flags) as process:
        with process.connect():
            before = process.descriptor_count()
        drive(process, random.Random(seed))
        wait_until(lambda: process.statistic("current-connections") == 1, f"sessions are left, seed {seed}")
        assert process.statistic("current-jobs-reserved") == 0, f"seed {seed}"
        assert process.statistic("current-waiting") == 0, f"seed {seed}"
        with process.connect():
            wait_until(lambda: process.descriptor_count() == before, f"descriptors are left, seed {seed}")
        assert len(process.events()) == 1, f"the log says more than that it listens, seed {seed}"
