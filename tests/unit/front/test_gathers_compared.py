"""Three shards behind a router answer as one server does, but for the ids of jobs and the order over shards."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from beanpole.engine.restore import Restore
from beanpole.testing.world import NS_PER_S
from tests.unit.front.shards import A, Server, Session

TUBES = (b"t", b"u", b"keyed")
STATES = (b"ready", b"delayed", b"buried")
SAME = ("current-jobs-", "total-jobs", "cmd-delete:", "pause", "jobs-", "puts-")
"""The keys of statistics that are the same."""


class Pair:
    """What both have been told."""

    def __init__(self) -> None:
        self.one = Server(A)
        self.session = Session()
        Restore(self.session.servers[A].engine).reach_job_id(10**9)  # which no other number in a reply looks like
        for server in (self.one, *self.session.servers.values()):  # no tube comes and goes with who uses it
            for tube in TUBES:
                server.say(b"watch " + tube, "other")
        self.ids: list[tuple[int, int]] = []
        """Of each job its id on the one server, and on the shards."""

    def say(self, command: bytes) -> tuple[bytes, bytes]:
        return self.one.say(command), self.session.say(command)

    def same(self, command: bytes) -> None:
        """Both say the same."""
        one, three = self.say(command)
        assert one == three, command

    def job(self, command: bytes, which: Iterable[int]) -> None:
        """Both say the same of some jobs, in which their ids stand for numbers."""
        found = [self.ids[i % len(self.ids)] if self.ids else (10**6, 10**6) for i in which]
        one = self.one.say(command % b" ".join([b"%d" % id for id, _ in found]))
        three = self.session.say(command % b" ".join([b"%d" % id for _, id in found]))
        assert one == self.translated(three), command

    def translated(self, reply: bytes) -> bytes:
        for one, three in self.ids:
            reply = reply.replace(b" %d" % three, b" <%d>" % one)
        return reply.replace(b"<", b"").replace(b">", b"")

    # --- commands -----------------------------------------------------------------------------------------------------

    def put(self, tube: int, number: int) -> None:
        options = b" key=%d" % (number % 5) if TUBES[tube] == b"keyed" else b""
        delay = number % 3 and number % 4
        one, three = self.say(b"put-job 1 tube=%b pri=%d delay=%d%b\r\nx" % (TUBES[tube], number, delay, options))
        assert one.split()[0] == three.split()[0]
        if one.startswith(b"INSERTED"):
            self.ids.append((int(one.split()[1]), int(three.split()[1])))
        else:
            assert one == self.translated(three)

    def one_job(self, tube: int, number: int) -> None:
        commands = (b"reserve-job %b", b"release %b 7 0", b"release %b 7 2", b"bury %b 7", b"delete %b", b"kick-job %b")
        self.job(commands[(tube + number) % len(commands)], [number // 3])

    def hold(self, _: int, number: int) -> None:
        self.job(b"reserve-job %b", [number])
        if number % 2:
            self.job(b"bury %b 5", [number])

    def many_jobs(self, tube: int, number: int) -> None:
        self.job(
            (b"delete-many %b", b"touch-many %b", b"touch-many %b")[tube], [number, number + 3, number + 1, number]
        )

    def kick(self, tube: int, _: int) -> None:
        self.same(b"use " + TUBES[tube])
        self.same(b"kick 1000")

    def move(self, tube: int, number: int) -> None:
        self.same(b"move-jobs %b %b 1000 to=%b" % (TUBES[tube % 2], STATES[number % 3], TUBES[1 - tube % 2]))

    def clear(self, tube: int, number: int) -> None:
        self.same(b"clear-tube %b %b" % (TUBES[tube], STATES[number % 3]))

    def pause(self, tube: int, number: int) -> None:
        self.same(b"pause-tube %b %d" % (TUBES[tube], number % 3))

    def key(self, _: int, number: int) -> None:
        one, three = self.say((b"find-job keyed %d", b"cancel-key keyed %d")[number % 2] % (number % 5))
        assert one == self.translated(three)

    def peek(self, tube: int, number: int) -> None:
        self.same(b"use " + TUBES[tube])
        one, three = self.say(b"peek-" + STATES[number % 3])
        assert (one == b"NOT_FOUND\r\n") == (three == b"NOT_FOUND\r\n")
        if number % 3 < 2 and one.startswith(b"FOUND"):
            shown = [
                side.say(b"stats-job " + reply.split()[1]) for side, reply in ((self.one, one), (self.session, three))
            ]
            pris = [[line for line in text.splitlines() if line.startswith((b"pri", b"time-left"))] for text in shown]
            assert pris[0] == pris[1]

    def list(self, tube: int, number: int) -> None:
        """The pages of both have the same jobs, each once."""
        state = (*STATES, b"reserved")[number % 4]
        pages: list[list[bytes]] = []
        for side in (self.one, self.session):
            found, after = [], b""
            while True:
                head, *lines = side.say(b"list-jobs %b %b %d%b" % (TUBES[tube], state, number % 5 + 1, after)).split(
                    b"\r\n"
                )
                found += [line.split()[1] for line in lines if line.startswith(b"JOB ")]
                if b"next=" not in head:
                    break
                after = b" after=" + head.split(b"next=")[1]
            pages.append(found)
        ids = {b"%d" % three: b"%d" % one for one, three in self.ids}
        assert pages[1] == sorted(pages[1], key=int)
        assert pages[0] == sorted([ids[id] for id in pages[1]], key=int)

    def time(self, _: int, number: int) -> None:
        self.one.advance(number % 4 * NS_PER_S)
        self.session.advance(number % 4 * NS_PER_S)

    def stats(self, tube: int, _: int) -> None:
        for command in (b"stats-tube " + TUBES[tube], b"stats-tubes", b"stats"):
            texts = [reply.decode().splitlines() for reply in self.say(command)]
            counts = [[line for line in text if line.strip().startswith(SAME)] for text in texts]
            assert counts[0] == counts[1]


COMMANDS = [
    *([Pair.put] * 6 + [Pair.hold] * 3 + [Pair.one_job] * 3 + [Pair.list] * 2 + [Pair.stats] * 2),
    *(Pair.many_jobs, Pair.kick, Pair.move, Pair.clear, Pair.pause, Pair.key, Pair.peek, Pair.time),
]


@given(st.lists(st.tuples(st.sampled_from(COMMANDS), st.integers(0, 2), st.integers(0, 59)), max_size=40))
@settings(max_examples=25)
def test_three_shards_answer_as_one_server(commands: list[tuple[object, int, int]]) -> None:
    pair = Pair()
    for command, tube, number in commands:
        command(pair, tube, number)  # type: ignore[operator]
