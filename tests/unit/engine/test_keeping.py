"""Sessions that lose their connections: who may return, until when, and what becomes of their jobs."""

import pytest

from beanpole.engine.limits import KEPT_JOBS_MAX
from beanpole.testing.world import World

SECOND = 1_000_000_000
A, B = "a" * 32, "b" * 32


class Tokens(World):
    """A world whose connections can be lost."""

    def say(self, name: str, line: str) -> str:
        """Return the reply to a command of a connection, which is opened if need be, without the last CR LF."""
        if name not in self.connections:
            self.connect(name)
        self.send(name, line.encode() + b"\r\n")
        self.check()
        return self.output(name).decode().removesuffix("\r\n")

    def lose(self, name: str) -> None:
        """End a connection from the server's side."""
        self.connections[name].transport.cut = True
        self.disconnect(name)
        self.check()

    def hold(self, name: str, token: str = A, *, count: int = 1, keep_s: int = 10, ttr_s: int = 60) -> list[str]:
        """Let a connection keep its session, and some jobs of its own; return their ids."""
        assert self.say(name, f"keep-session {keep_s} {token}") == "KEPT 0"
        ids = [self.say(name, f"put 0 0 {ttr_s} 1\r\nx").removeprefix("INSERTED ") for _ in range(count)]
        for id in ids:
            assert self.say(name, f"reserve-job {id}").startswith(f"RESERVED {id} ")
        return ids

    def state(self, id: str) -> str:
        return self.say("m", f"stats-job {id}").split("state: ")[1].split("\n")[0]

    def stat(self, key: str) -> int:
        return int(self.say("m", "stats").split(f"\n{key}: ")[1].split("\n")[0])


@pytest.fixture
def world() -> Tokens:
    """A world."""
    return Tokens()


def test_who_returns_has_its_jobs_again(world: Tokens) -> None:
    ids = world.hold("w", count=2)
    world.lose("w")
    world.advance(9 * SECOND)
    assert [world.state(id) for id in ids] == ["reserved"] * 2
    assert world.say("m", f"delete {ids[0]}") == "NOT_FOUND"
    assert (world.stat("sessions-lost"), world.stat("current-connections")) == (1, 1)
    assert world.say("again", f"keep-session 10 {A}") == f"KEPT 2 {ids[0]} {ids[1]}"
    assert (world.stat("sessions-lost"), world.stat("sessions-resumed")) == (0, 1)
    world.advance(59 * SECOND)  # each was touched
    assert [world.say("again", f"delete {id}") for id in ids] == ["DELETED"] * 2


def test_who_does_not_return_gives_its_jobs_back(world: Tokens) -> None:
    ids = world.hold("w", count=2)
    world.lose("w")
    world.say("v", "reserve")
    world.advance(10 * SECOND)
    assert world.output("v").startswith(f"RESERVED {ids[0]} ".encode())
    assert world.state(ids[1]) == "ready"
    assert (world.stat("sessions-lost"), world.stat("sessions-resumed")) == (0, 0)
    assert world.say("w", f"keep-session 10 {A}") == "KEPT 0"
    assert world.say("m", "stats-job 1").count("timeouts: 0") == 1


def test_a_job_is_cancelled_that_waits_for_its_holder(world: Tokens) -> None:
    ids = world.hold("w", count=2)
    world.lose("w")
    assert world.say("m", f"cancel-job {ids[0]}") == "CANCELLED"
    assert world.say("again", f"keep-session 10 {A}") == f"KEPT 1 {ids[1]}"
    world.lose("again")
    assert world.say("m", f"cancel-job {ids[1]}") == "CANCELLED"
    world.advance(10 * SECOND)
    assert world.stat("sessions-lost") == 0, "who holds nothing any more is forgotten when its time is over"


@pytest.mark.parametrize("how", ["gone", "quit", "off", "nothing held", "no token"])
def test_an_end_of_the_clients_own_gives_its_jobs_back_at_once(world: Tokens, how: str) -> None:
    ids = world.hold("w") if how != "no token" else [world.say("w", "put 0 0 60 1\r\nx\r\nreserve")[9]]
    if how == "quit":
        world.say("w", "quit")
    elif how == "off":
        assert world.say("w", f"keep-session 0 {A}") == "KEPT 0"
        world.lose("w")
    elif how == "gone":
        world.disconnect("w")
    else:
        if how == "nothing held":
            world.say("w", f"release {ids[0]} 0 0")
        world.lose("w")
    assert world.state(ids[0]) == "ready"
    assert world.stat("sessions-lost") == 0


def test_where_all_ends_keep_only_quit_gives_back(world: Tokens) -> None:
    world.say("w", f"keep-session 10 {A} ends=all")
    world.say("w", "put 0 0 60 1\r\nx\r\nreserve")
    world.disconnect("w")
    assert world.state("1") == "reserved"
    assert world.say("w", f"keep-session 10 {A} ends=all") == "KEPT 1 1"
    world.say("w", "quit")
    assert world.state("1") == "ready"


def test_time_to_run_goes_on_without_a_connection(world: Tokens) -> None:
    ids = world.hold("w", keep_s=100, ttr_s=5)
    world.lose("w")
    world.advance(5 * SECOND)
    assert world.state(ids[0]) == "ready"
    assert world.say("m", f"stats-job {ids[0]}").count("timeouts: 1") == 1
    assert world.stat("sessions-lost") == 0


def test_the_older_of_two_connections_is_closed(world: Tokens) -> None:
    """A half-open connection: its reserve ends unanswered, and nothing that it sent later runs."""
    ids = world.hold("w")
    world.send("w", b"reserve\r\n")
    assert world.say("again", f"keep-session 10 {A}") == f"KEPT 1 {ids[0]}"
    assert world.is_closed("w")
    assert world.output("w") == b""
    assert world.state(ids[0]) == "reserved"


def test_a_token_of_somebody_else_is_unknown(world: Tokens) -> None:
    ids = world.hold("w")
    world.lose("w")
    assert world.say("v", f"keep-session 10 {B}") == "KEPT 0"
    assert world.say("v", f"keep-session 10 {A}") == "NOT_KEPT"
    assert world.state(ids[0]) == "reserved"


def test_who_comes_back_to_stop_gives_back_at_once(world: Tokens) -> None:
    ids = world.hold("w", count=2)
    world.lose("w")
    assert world.say("again", f"keep-session 0 {A}") == "KEPT 0"
    world.advance(0)
    assert [world.state(id) for id in ids] == ["ready", "ready"]


def test_more_than_fit_a_line_come_back(world: Tokens) -> None:
    ids = world.hold("w", count=KEPT_JOBS_MAX + 2)
    world.lose("w")
    assert world.stat("current-jobs-ready") == 2
    kept = world.say("again", f"keep-session 10 {A}").split()
    assert kept[1] == str(KEPT_JOBS_MAX)
    assert set(kept[2:]) < set(ids)


def test_what_was_held_before_is_kept_too_and_said_again(world: Tokens) -> None:
    world.say("w", "put 0 0 60 1\r\nx\r\nreserve")
    assert world.say("w", f"keep-session 10 {A}") == "KEPT 1 1"
    assert world.say("w", f"keep-session 20 {A}") == "KEPT 1 1"
    world.lose("w")
    world.advance(19 * SECOND)
    assert world.say("w", f"keep-session 20 {A}") == "KEPT 1 1"


def test_slots_and_attempts_are_those_of_one_reservation(world: Tokens) -> None:
    lines = "attempts: 1\nconcurrency: 1\n"
    world.say("m", f"set-rules default {len(lines)}\r\n{lines}")
    ids = world.hold("w")
    other = world.say("m", "put 0 0 60 1\r\nx").removeprefix("INSERTED ")
    world.lose("w")
    assert world.say("v", "reserve-with-timeout 0") == "TIMED_OUT"
    assert world.say("w", f"keep-session 10 {A}") == f"KEPT 1 {ids[0]}"
    assert world.say("v", "reserve-with-timeout 0") == "TIMED_OUT"
    assert world.say("w", f"delete {ids[0]}") == "DELETED"
    assert world.say("v", "reserve-with-timeout 0").startswith(f"RESERVED {other} ")
    world.disconnect("v")
    assert world.state(other) == "buried"


def test_no_time_counts_while_no_client_is_taken(world: Tokens) -> None:
    ids = world.hold("w", ttr_s=3)
    world.engine.stop_taking_clients()
    world.lose("w")
    world.advance(1000 * SECOND)
    assert world.state(ids[0]) == "reserved"
    world.engine.take_clients(world.now_ns)
    world.advance(9 * SECOND)
    assert world.state(ids[0]) == "reserved"
    world.advance(SECOND)
    assert world.state(ids[0]) == "ready"


def test_explain_and_list_sessions_say_who_may_return(world: Tokens) -> None:
    ids = world.hold("w")
    world.say("w", "name-session mailer")
    world.lose("w")
    world.advance(3 * SECOND)
    assert '- lost: {"session": 0, "silent": 3, "left": 7, "ttr": 60}' in world.say("m", f"explain {ids[0]}")
    listed = world.say("m", "list-sessions")
    assert '  name: "mailer"\n' in listed
    assert "  lost: 3\n  until: 7\n  jobs-held: 1\n" in listed
    assert A not in listed
    assert world.say("m", "list-jobs default reserved 1 fields=session,peer").startswith("JOBS 1 ")


@pytest.mark.parametrize(
    "line",
    [
        "keep-session 601 " + A,
        "keep-session 10 " + A[1:],
        "keep-session 10 " + A + "a",
        "keep-session 10 " + "A" * 32,
        "keep-session 10 " + "g" * 32,
        "keep-session 1.5 " + A,
        "keep-session 10",
        "keep-session 10 " + A + " ends=some",
        "keep-session 10 " + A + " always",
    ],
)
def test_what_is_no_keep_session(world: Tokens, line: str) -> None:
    assert world.say("w", line) == "BAD_FORMAT"
    assert world.stat("sessions-lost") == 0
