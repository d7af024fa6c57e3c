"""`kill -9` of a server around the fires of schedules: each of their times puts one job, and no more.

The schedules have a time each second, and the server's clock is the test's: it goes on by a second, the server is asked
for something, so that it looks at the clock, and killed before, while or after it answers. No job is ever deleted.
"""

import random
import re
import time
from collections import defaultdict
from pathlib import Path

from beanpole.testing.world import NS_PER_S
from tests.durability.kept import keeping, kill
from tests.e2e.process import Client
from tests.soak.clock import Clock
from tests.soak.replies import replies

NAMES = (b"one", b"two", b"three")
DOCUMENT = b"every: 1\noverlap: allow\ntube: fired\n\nx"
PAUSES_S = (0, 0, 1, 3, 90)
"""For how long a server is down. Of the longest some times are missed, but all are counted."""

FIRED = re.compile(rb"^JOB (\d+) .* schedule=(\S+) scheduled=(\d+) fire=(\d+) ", re.MULTILINE)

Put = tuple[int, int, int]
"""Which fire a job is, the second for which it was, and its id."""


def fired(client: Client) -> dict[bytes, list[Put]]:
    """Return what each schedule has put."""
    client.send(b"list-jobs fired ready 1000\r\nlist-jobs fired reserved 1000\r\n")
    found = defaultdict(list)
    for id, name, at, fire in FIRED.findall(b"".join(replies(client, 2))):
        found[name].append((int(fire), int(at), int(id)))
    return {name: sorted(found[name]) for name in NAMES}


def audit(client: Client, seen: dict[bytes, list[Put]], set_at: int) -> dict[bytes, list[Put]]:
    """Return what each schedule has put: what was seen before, and more, without a gap. Raises AssertionError."""
    there = fired(client)
    for name, put in there.items():
        client.send(b"get-schedule %b\r\n" % name)
        [frame] = replies(client, 1)
        state = dict(re.findall(rb"(\w+)=(\d+)", frame))
        fires, last = int(state[b"fires"]), int(state[b"last"])
        about = f"{name!r}: seen {seen[name]}, put {put}, {frame!r}"
        assert put[: len(seen[name])] == seen[name], about
        assert [fire for fire, _, _ in put] == list(range(1, fires + 1)), about
        assert [at for _, at, _ in put] == sorted({at for _, at, _ in put}), about
        assert not last or last - set_at == fires + int(state[b"misses"]), about
    return there


def run(seed: int, folder: Path, clock: Clock, kills: int) -> int:
    """Kill a server again and again; return how many jobs schedules have put. Raises AssertionError."""
    chance = random.Random(seed)
    seen: dict[bytes, list[Put]] = {name: [] for name in NAMES}
    set_at = clock.now_ns // NS_PER_S
    for round_ in range(kills):
        flags = chance.choice(((), ("-s", "65536")))
        with keeping(folder, *flags, env=clock.env) as process, process.connect() as client:
            for name in NAMES if not round_ else ():
                client.send(b"set-schedule %b %d\r\n%b\r\n" % (name, len(DOCUMENT), DOCUMENT))
                assert client.line().startswith(b"SCHEDULED ")
            seen = audit(client, seen, set_at)
            for _ in range(chance.randint(0, 3)):
                clock.now_ns += NS_PER_S
                seen = audit(client, seen, set_at)
            clock.now_ns += chance.choice((1, 1, 2)) * NS_PER_S
            client.send(b"list-tubes\r\n")
            time.sleep(chance.random() * 0.002)
            kill(process)
        clock.now_ns += chance.choice(PAUSES_S) * NS_PER_S
    with keeping(folder, env=clock.env) as process, process.connect() as client:
        return sum(map(len, audit(client, seen, set_at).values()))
