"""The reference model as a client of a real server over TCP, for as long as is asked for.

python -m tests.soak.model [SECONDS] [--seed N]

Each seed is some conversations of several connections, which Hypothesis invents, pipelined where nobody waits: every
reply is the one that the model gives. The server's clock is the test's (`tests.soak.clock`), so nothing happens by
itself. Of a failure the steps of its conversation are printed, and the seed.
"""

import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from beanpole.testing.world import START_NS
from tests.durability.kept import kill
from tests.e2e.process import Client, serving
from tests.model.bookkeeping import Thing
from tests.model.compare import compare_stats
from tests.model.conversation import OBSERVER, Conversation, bytes_of, converse
from tests.model.model import Model
from tests.soak.clock import Clock
from tests.soak.replies import replies, replies_in
from tests.soak.seeds import arguments, named, say, seeds

CONVERSATIONS = 20
"""Of one seed."""

AS_IT_IS = {"phases": [hypothesis.Phase.generate], "database": None, "report_multiple_bugs": False}
"""A conversation that fails is told as it was, and nothing else ran before: to find a shorter one takes an hour."""

PATIENCE_S = 20.0
"""How long the server may take until it says what the model says."""


class WakingModel(Model):
    """The model, which remembers in which order it ended the waiting of sessions."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.woken: list[Thing] = []

    def end_older(self, session: Thing) -> None:
        """Takes note of who is to be closed."""
        super().end_older(session)
        self.woken.append(session)

    def answer(self, session: Thing, reply: str) -> None:
        """Answers, and takes note of those who waited."""
        if session.waiting:
            self.woken.append(session)
        super().answer(session, reply)


class RealWorld:
    """A server and named connections to it, in place of the world that tests have in their own process."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.clients: dict[str, Client] = {}
        self.resumed: list[str] = []
        self.stack = ExitStack()
        clock.now_ns = START_NS
        clock.set_lead(0)
        self.process = self.stack.enter_context(serving(env=clock.env))

    @property
    def now_ns(self) -> int:
        return self.clock.now_ns

    def connect(self, name: str) -> None:
        self.clients[name] = self.process.connect(wait_accepted=False)
        self.clients[name].socket.settimeout(PATIENCE_S)

    def send(self, name: str, data: bytes) -> None:
        self.clients[name].send(data)

    def half_close(self, name: str) -> None:
        """Says that no more will be sent."""
        self.clients[name].half_close()

    def disconnect(self, name: str) -> None:
        """Resets a connection: after an end in good order the server would do what it has buffered."""
        self.clients.pop(name).reset()

    def drain(self) -> None:
        self.process.signal(signal.SIGUSR1)

    def tick(self, duration_ns: int) -> None:
        self.clock.now_ns += duration_ns

    def settle(self) -> None:
        """Does nothing: a server goes on by itself."""

    def close(self) -> None:
        kill(self.process)
        for client in self.clients.values():
            client.socket.close()
        self.stack.close()


class RealConversation(Conversation):
    """The model and a server, and connections to both.

    Only the model knows who goes on when several sessions are woken at once: those first that were woken first.
    """

    clock: ClassVar[Clock]
    command_count: ClassVar = 0
    model: WakingModel

    def __init__(self) -> None:
        super().__init__(RealWorld(self.clock), WakingModel(START_NS))

    def set_limits(self, tubes_max: int, once_max: int) -> None:
        """Does nothing: a server has its limits from its start."""

    def set_shard(self, shard: tuple[int, ...]) -> None:
        """Does nothing: a server has its number from its start."""

    def set_lead(self, lead: int) -> None:
        """Lets the wall clock of both be so far ahead."""
        self.model.lead = lead
        self.clock.set_lead(lead)

    def set_taking(self, *, takes: bool) -> None:
        """Does nothing: a server takes clients, or is gone."""

    def cut(self, name: str) -> None:
        """Resets a connection: by nothing that a client does the server's side ends it."""
        session = self.sessions[name]
        self.world.disconnect(name)
        self.model.half_close(session)  # what it sent behind a reserve still runs, as a server promises
        if session in self.model.sessions:
            self.model.end(session)
        self.forget(name)
        self.follow("")
        self.keep_up()

    def teardown(self) -> None:
        """Ends the server."""
        RealConversation.command_count += sum(n for key, n in self.model.counts.items() if key.startswith("cmd-"))
        self.world.close()

    @invariant()
    def same(self) -> None:
        """Every reply is the same, and no connection is open on one side only."""
        self.keep_up()
        for name, session in list(self.sessions.items()):
            client: Client = self.world.clients[name]
            wanted, session.out = replies_in(session.out), ""
            got = replies(client, len(wanted))
            assert got == wanted, f"{name} got {got!r}, the model says {wanted!r}"
            if session not in self.model.sessions:
                rest = client.rest()
                assert not rest, f"{name} got {rest!r} before its end, and the model says nothing"
                self.world.disconnect(name)
                self.forget(name)
            else:
                client.socket.setblocking(False)
                try:
                    extra = client.socket.recv(1000)
                    raise AssertionError(f"{name} got {extra!r}, the model says nothing")
                except BlockingIOError:
                    client.socket.settimeout(PATIENCE_S)
        self.observe()

    def keep_up(self) -> None:
        """Waits until the server has done what the model has: until its `stats` say the same."""
        if (
            self.model.next_deadline() <= self.model.now
        ):  # by what was said, as that a schedule is set: the next turn looks
            super().jump_to(self.model.now)
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            got, wanted = self.asked([("stats",)])
            try:
                compare_stats(got[0], wanted[0])
            except AssertionError:
                if time.monotonic() > give_up_at:
                    raise
            else:
                return

    def observe(self) -> None:
        """Compares all that a client can find out, asked for at once."""
        commands = self.seen()
        for command, got, wanted in zip(commands, *self.asked(commands), strict=True):
            assert got == wanted, f"{command}: {got!r}, the model says {wanted!r}"
        self.keep_up()  # so that its last command is `stats`, whether the server hears somebody else or it first

    def asked(self, commands: list[tuple[Any, ...]]) -> tuple[list[bytes], list[bytes]]:
        """What the server answers the observer, and the model."""
        self.world.send(OBSERVER, b"".join(bytes_of(*command) for command in commands))
        self.observer.todo += commands
        self.model.run(self.observer)
        wanted, self.observer.out = replies_in(self.observer.out), ""
        return replies(self.world.clients[OBSERVER], len(commands)), wanted

    def look(self, command: tuple[Any, ...]) -> bytes:
        """What the server answers the observer alone."""
        self.world.send(OBSERVER, bytes_of(*command))
        [reply] = replies(self.world.clients[OBSERVER], 1)
        return reply

    def choose(self, data: st.DataObject) -> str:
        """A session that does not wait: it is not known when the server reads what is sent to one that does."""
        free = [name for name in sorted(self.sessions) if not self.sessions[name].waiting]
        if not free and self.sessions:
            name = min(self.sessions)
            self.world.half_close(name)
            self.model.half_close(self.sessions[name])
            self.follow(name)
            self.same()
        if not free:
            free = ["a"]
            self.connect(free[0])
        return str(data.draw(st.sampled_from(free)))

    def say(self, name: str, some: list[tuple[Any, ...]]) -> None:
        """Sends whole commands, but to one who waits nothing except that it waits no more."""
        session = self.sessions[name]
        if not session.waiting or (some == [("cancel-reserve",)] and not session.todo and name not in self.unsent):
            super().say(name, some)

    def deliver(self, name: str, sent: bytes, some: list[tuple[Any, ...]]) -> None:
        """Sends bytes, and waits until the server has done what they say."""
        super().deliver(name, sent, some)
        self.keep_up()

    def jump_to(self, now_ns: int) -> None:
        """Lets time pass, and the server see it, unless somebody would go on in the same turn as the observer asks."""
        if not any(session.todo for session in self.sessions.values()):
            super().jump_to(now_ns)
            self.keep_up()

    def step_clock(self, step: int) -> None:
        """Sets the wall clock, unless nobody could look at it then."""
        if not any(session.todo for session in self.sessions.values()):
            super().step_clock(step)

    def follow(self, name: str) -> None:
        """Lets the model run a session, and those that are woken, in the order in which they are."""
        if name in self.sessions:
            self.model.run(self.sessions[name])
        while self.model.woken:
            session = self.model.woken.pop(0)
            if session in self.model.sessions:
                self.model.run(session)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="beanpole-") as folder:
        RealConversation.clock = Clock(Path(folder), START_NS)
        for seed in seeds(arguments(__doc__).parse_args()):
            with named("model", seed):
                converse(hypothesis.seed(seed)(RealConversation), CONVERSATIONS, **AS_IT_IS)
            say(f"seed {seed}: {RealConversation.command_count} commands answered as the model says, so far")


if __name__ == "__main__":
    main()
