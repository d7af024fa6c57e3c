"""Random conversations: what clients say to a queue server, right or wrong, whole or in pieces.

Everything comes from a seed. The state of the engine in its world decides what may be said next, so that nothing comes
up whose answer depends on chance or on a difference that is known and avoided; such rules name the difference.
All times are 0 or so long that nothing is due while a conversation lasts.
"""

import random
from typing import TYPE_CHECKING

from tests.differential.side import Part, WorldSide

if TYPE_CHECKING:
    from collections.abc import Callable

BODY_BYTES_MAX = 300
"""The servers' limit, small so that bodies above it are cheap."""

LONG_S = ("1000", "4294967295", "  2000", "0003000")
WRONG_NUMBERS = ("-1", "+1", "0x1", "1e3", "", "4294967296", "99999999999999999999", "\t1", "1,", "x", "1\x001")
WRONG_IDS = ("-1", "+1", "0x1", "", "18446744073709551616", "\t1", "x", "1 1")
KICKS = (
    "1",
    "2",
    "10",
    "0",
    "+1",
    "-1",
    "1x",
    "1 ",
    "\t2",
    "4294967296",
    "4294967297",
    "18446744073709551616",
    "x",
    "",
)
TIMEOUTS = ("0", "0", "0foo", "0 ", " 0", "00")  # reserve-timeout-number: the two releases agree on these
TUBES = ("default", "t", "u", "t", "u", "123", "0.5", "null", "a;b/c+d$e_f.g(h)", "z" * 200)
WATCHED = ("default", "t", "u")
"""Those that are watched where a router has several shards: a map has them on one (order-over-shards)."""

WRONG_TUBES = ("-t", "a:b", "", "a b", " t", "t ", "z" * 201, "caf\xe9", "a\x00", "a\nb")
ODDITIES = (
    "", " ", "put", "peek", "delete", "release", "bury", "kick", "kick-job", "touch", "use", "watch", "ignore", "put ",
    "peek ", "reserve-job", "reserve-with-timeout", "reservefoo", "reserve ", "stats-job", "stats-tube", "statsfoo",
    "stats ", "list-tubesx", "list-tubes ", "list-tube", "peek-readyx", "peek-foo", "peek-ready ", "kick-jobs 1",
    "pause-tube", "pause-tubet 1000", "PUT 0 0 1 1", " stats", "Stats", "stats\n", "use a\nb", "\x00", "\xff\xfe",
    "list-tube-used ", "list-tubes-watched ", "list-tubes-watchedx", "touch 1 ", "kick-job 1 1", "quat",
)  # fmt: skip


class Speaker:
    """What one client says next."""

    def __init__(self, chance: random.Random, watched: tuple[str, ...]) -> None:
        """`watched` are the tubes that clients may watch."""
        self.chance = chance
        self.watched = watched

    def number(self, good: tuple[str, ...]) -> bytes:
        """A number of a command, now and then a wrong one."""
        return self.chance.choice(WRONG_NUMBERS if self.chance.random() < 0.02 else good).encode()

    def pri(self) -> bytes:
        return self.number(("0", "1", "5", "1023", "1024", "4294967295", " 7", "007"))

    def delay(self) -> bytes:
        """0, or one that no other job has, a long way from all others.

        one-time-per-turn: of two equal ones in a burst the smaller id would be due first, or the first.
        fractions: whole seconds, as beanstalkd takes no others.
        """
        return self.number(("0", "0", "0", f"{1000 * self.chance.randrange(1, 4_000_000)}"))

    def tube(self, tubes: tuple[str, ...] = TUBES) -> bytes:
        return self.chance.choice(WRONG_TUBES if self.chance.random() < 0.05 else tubes).encode("latin-1")

    def id(self, job_count: int, held: list[int]) -> list[Part]:
        """A job that the client holds, or one of the last; sometimes none that exists, or none at all."""
        if self.chance.random() < 0.04:
            return [self.chance.choice(WRONG_IDS).encode()]
        spaces = b"  " if self.chance.random() < 0.03 else b""
        garbage = self.chance.choice([b" ", b"x", b" 1"]) if self.chance.random() < 0.03 else b""
        job = max(job_count - int(self.chance.expovariate(0.2)), 0)
        if held and self.chance.random() < 0.5:
            job = self.chance.choice(held)
        return [spaces, job, garbage]

    def put(self) -> list[Part]:
        """A put: mostly right, else with a body that is too long, too short, or over the limit."""
        size = self.chance.choice([0, 1, 5, 100, BODY_BYTES_MAX, BODY_BYTES_MAX + 1, 2 * BODY_BYTES_MAX])
        body = bytes(self.chance.choice(b"ab \x00\n\xff") for _ in range(size))
        if size >= 5 and self.chance.random() < 0.3:
            body = body[:2] + b"\r\n" + body[4:]
        claimed = str(size + self.chance.choice([0] * 30 + [-3, -2, -1]) if size else 0).encode()
        words = [b"put", self.pri(), self.delay(), self.number(LONG_S), claimed]
        garbage = self.chance.choice([b" ", b"x", b" 1"]) if self.chance.random() < 0.03 else b""
        end = self.chance.choice([b"\r\n"] * 20 + [b"\n\n", b"xx"])
        return [b" ".join(words) + garbage + b"\r\n" + body + end]

    def odd_line(self) -> list[Part]:
        """A line that no client should send. Never a lone CR (lone-cr), and no verb of ours alone (extensions)."""
        if self.chance.random() < 0.8:
            return [self.chance.choice(ODDITIES).encode("latin-1") + b"\r\n"]
        size = self.chance.randrange(200, 1000)
        return [bytes(self.chance.choice(b"abc /\x00\n") for _ in range(size)) + b"\r\n"]

    def command(self, job_count: int, held: list[int], *, may_wait: bool) -> list[Part]:
        """Any command but quit. `may_wait`: it may be a reserve that is not answered."""
        chance, id = self.chance, self.id(job_count, held)
        ready = b"reserve" if may_wait else b"reserve-with-timeout 0"
        kinds: list[tuple[int, Callable[[], list[Part]]]] = [
            (20, self.put),
            (4, lambda: [ready, b"\r\n"]),
            (10, lambda: [b"reserve-with-timeout ", chance.choice(TIMEOUTS).encode(), b"\r\n"]),
            (3, lambda: [b"reserve-with-timeout 1000\r\n"] if may_wait else [b"reserve-with-timeout 0\r\n"]),
            (6, lambda: [b"reserve-job ", *id, b"\r\n"]),
            (8, lambda: [b"delete ", *id, b"\r\n"]),
            (6, lambda: [b"release ", *id, b" " + self.pri() + b" " + self.delay(), b"\r\n"]),
            (7, lambda: [b"bury ", *id, b" " + self.pri(), b"\r\n"]),
            (3, lambda: [b"touch ", *id, b"\r\n"]),
            (4, lambda: [b"kick-job ", *id, b"\r\n"]),
            (6, lambda: [b"kick ", chance.choice(KICKS).encode(), b"\r\n"]),
            (4, lambda: [b"peek ", *id, b"\r\n"]),
            (6, lambda: [b"peek-", chance.choice([b"ready", b"delayed", b"buried"]), b"\r\n"]),
            (6, lambda: [b"use ", self.tube(), b"\r\n"]),
            (6, lambda: [b"watch ", self.tube(self.watched), b"\r\n"]),
            (5, lambda: [b"ignore ", self.tube(), b"\r\n"]),
            (3, lambda: [b"pause-tube ", self.tube(), b" ", self.number(("0", "0", *LONG_S)), b"\r\n"]),
            (5, lambda: [b"stats-job ", *id, b"\r\n"]),
            (5, lambda: [b"stats-tube ", self.tube(), b"\r\n"]),
            (2, lambda: [b"stats\r\n"]),
            (6, lambda: [chance.choice([b"list-tubes", b"list-tubes-watched", b"list-tube-used"]), b"\r\n"]),
            (8, self.odd_line),
        ]
        [kind] = chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        return kind()


class Conversation:
    """The steps of one conversation: (connection, what it does, what it sends, where that is cut)."""

    def __init__(self, seed: int, world: WorldSide, names: str, watched: tuple[str, ...] = TUBES) -> None:
        self.chance = random.Random(seed)
        self.speaker = Speaker(self.chance, watched)
        self.world = world
        self.names = names
        self.more_than_reserve: set[str] = set()
        """Who may have said something behind a reserve that waits."""

        self.held: dict[str, list[int]] = {name: [] for name in names}
        """Jobs that the connection has reserved at some time."""

    def hear(self, replies: dict[str, list[str]]) -> None:
        """Takes note of what the engine has answered."""
        for name in self.names:
            for reply in replies.get(name, []):
                if reply.startswith("RESERVED job "):
                    self.held[name].append(int(reply.split()[2]))

    def step(self) -> tuple[str, str, list[Part]]:
        """What happens next: a connection and "connect", "send", "half-close", "disconnect" or "reset"."""
        open_names = [name for name in self.names if name in self.world.received and not self.world.is_closed(name)]
        missing = [name for name in self.names if name not in open_names]
        if missing and (not open_names or self.chance.random() < 0.3):
            return missing[0], "connect", []
        name = self.chance.choice(open_names)
        waiting = {other for other in open_names if self.world.waits(other)}
        # jobs-given-back-at-once: who holds two jobs does not leave while somebody waits.
        if self.chance.random() < 0.04 and not (waiting - {name} and self.world.holds(name) > 1):
            has_more = name in waiting & self.more_than_reserve  # lost-connection
            return name, "half-close" if has_more else self.chance.choice(["half-close", "disconnect", "reset"]), []
        return name, "send", self.burst(name, waiting)

    def burst(self, name: str, waiting: set[str]) -> list[Part]:
        """Some commands at once. While another waits with more to say, only one: the order of both is the server's."""
        may_wait = not waiting  # waiting-order: nobody waits beside another
        count = 1 if waiting & self.more_than_reserve else self.chance.choice([1, 1, 2, 3, 8])
        parts: list[Part] = []
        for _ in range(count):
            said = self.speaker.command(len(self.world.ids), self.held[name][-3:], may_wait=may_wait)
            lines = self.world.rendered(said).split(b"\r\n")
            if not any(len(line) % 224 > 215 for line in lines):
                parts += said  # line-of-225-bytes: none of that length, even with the rest of a body before it
        if self.chance.random() < 0.02 and not waiting:
            # Alone: what a server has not read when it closes makes the kernel reset, and replies can be lost.
            return [self.chance.choice([b"quit\r\n", b"quit now\r\nlist-tubes\r\n", b"quitter\r\n"])]
        if count > 1 or name in waiting:
            self.more_than_reserve.add(name)
        else:
            self.more_than_reserve.discard(name)
        return parts

    def cuts(self, size: int) -> list[int]:
        """Where what is sent is cut into pieces: mostly nowhere."""
        count = self.chance.choice([0, 0, 0, 1, 2, 5])
        return sorted({self.chance.randrange(size) for _ in range(count)} - {0}) if size else []
