"""No client brings one job, byte or tube too many into a space, whatever it says; and spaces count what is there.

What lies there is counted anew after each step (`beanpole.engine.check`).
"""

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from beanpole.testing.world import World
from tests.model.test_rights import PATTERNS, commands
from tests.seeds import seeds

SEEDS = seeds(30, "SPACES_SEED")
STEPS = 40
CLIENTS = ["a", "b"]
BRINGS = {"put", "put-job", "change-job", "change-body", "move-jobs", "use", "watch"}
"""What may bring something into a space; all else brings there only what the rules move."""

limits = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))


class Spaces(RuleBasedStateMachine):
    """An engine with spaces, and clients without limits of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.last_id = 0
        self.connect()

    def connect(self) -> None:
        """Those who asked for a tube too many are gone."""
        for name in CLIENTS:
            if name not in self.world.connections or self.world.is_closed(name):
                self.world.connections.pop(name, None)
                self.world.connect(name)

    def used(self) -> dict[bytes, tuple[tuple[int, int], ...]]:
        """What lies in each space, and how much may."""
        table = self.world.engine.spaces
        found = {} if table is None else table.spaces
        return {
            name: (
                (each.job_count, each.jobs_max),
                (each.body_bytes, each.bytes_max),
                (each.tube_count, each.tubes_max),
            )
            for name, each in found.items()
        }

    @rule(spaces=st.dictionaries(st.sampled_from(PATTERNS), limits, max_size=3))
    def set_spaces(self, spaces: dict[bytes, tuple[int, int, int]]) -> None:
        self.world.engine.set_spaces(spaces)
        self.world.jump(0)

    @rule(name=st.sampled_from(CLIENTS), text=commands)
    def say(self, name: str, text: str) -> None:
        if self.world.connections[name].session.waiting:
            self.world.send(name, b"cancel-reserve\r\n")
        before = self.used()
        line = text.format(*[max(self.last_id - each, 1) for each in range(5)])
        self.world.send(name, f"{line}\r\n".encode())
        for reply in self.world.output(name).split(b"\r\n"):
            if reply.startswith(b"INSERTED "):
                self.last_id = int(reply.split()[1])
        if line.split()[0] in BRINGS:
            for space, counts in self.used().items():
                for (count, most), (was, _) in zip(counts, before[space], strict=True):
                    assert count <= was or most == 0 or count <= most, f"{line!r} brings too much into {space!r}"
        self.connect()

    @rule(ms=st.sampled_from([1, 999, 1000, 9000]))
    def advance(self, ms: int) -> None:
        self.world.advance(ms * 1_000_000)

    @invariant()
    def counts(self) -> None:
        self.world.check()


def test_no_client_brings_too_much_into_a_space() -> None:
    machine = hypothesis.seed(SEEDS[0])(Spaces)
    how = settings(max_examples=len(SEEDS), stateful_step_count=STEPS, deadline=None)
    run_state_machine_as_test(machine, settings=settings(how, suppress_health_check=list(HealthCheck)))
