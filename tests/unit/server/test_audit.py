"""The audit: the first of its kind is said at once, what follows once a second, and a user can't fill the log."""

from beanpole.protocol.commands import Verb
from beanpole.server.audit import KINDS_MAX, Audit
from beanpole.server.logs import Event, Logger


class Lines:
    """An audit, and what it has written since it was last asked."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.audit = Audit(Logger(self.line), lambda client: f"peer of {client}")

    def line(self, event: Event) -> str:
        self.events.append({key: value for key, value in event.items() if key not in {"timestamp", "level"}})
        return ""

    def acts(self, tube: str = "a", client: str = "c", user: str = "shop", *, allowed: bool = True) -> None:
        self.audit.acted(client, user.encode(), Verb.KICK_JOB, tube.encode(), allowed)

    def flush(self) -> None:
        for _ in self.audit.flush():
            pass

    def taken(self) -> list[Event]:
        events, self.events = self.events, []
        return events


FIRST = {
    "user": "shop",
    "peer": "peer of c",
    "command": "kick-job",
    "tube": "a",
    "result": "allowed",
    "event": "audit",
}


def test_the_first_is_said_at_once_and_what_follows_once_a_second() -> None:
    lines = Lines()
    for _ in range(5):
        lines.acts()
    assert lines.taken() == [FIRST]
    lines.flush()
    assert lines.taken() == [FIRST | {"more": 4}]
    lines.acts()
    assert lines.taken() == [], "one line a second"
    lines.flush()
    assert lines.taken() == [FIRST | {"more": 1}]
    lines.flush()
    lines.acts()
    assert lines.taken() == [FIRST]


def test_each_user_client_tube_and_result_has_lines_of_its_own() -> None:
    lines = Lines()
    lines.acts()
    lines.acts("b")
    lines.acts(client="d")
    lines.acts(user="other")
    lines.acts(allowed=False)
    assert lines.taken() == [
        FIRST,
        FIRST | {"tube": "b"},
        FIRST | {"peer": "peer of d"},
        FIRST | {"user": "other"},
        FIRST | {"result": "refused"},
    ]


def test_who_makes_up_tubes_gets_one_sum_and_keeps_nobody_else_out() -> None:
    lines = Lines()
    for number in range(KINDS_MAX + 50):
        lines.acts(f"t{number}", allowed=False)
    lines.acts(user="other")
    assert [line.get("tube") for line in lines.taken()] == [*(f"t{number}" for number in range(KINDS_MAX)), "a"]
    lines.flush()
    assert lines.taken() == [{"user": "shop", "left_out": 50, "event": "audit"}]
    lines.flush()
    lines.acts("new")
    assert lines.taken() == [FIRST | {"tube": "new"}]


def test_what_follows_while_lines_are_written_waits_for_the_next_time() -> None:
    lines = Lines()
    for tube in "ab":
        for _ in range(2):
            lines.acts(tube)
    lines.taken()
    writing = lines.audit.flush()
    next(writing)
    lines.acts()
    lines.flush()
    assert lines.taken() == [FIRST | {"more": 1}]
    assert list(writing) == [None]
    assert lines.taken() == [FIRST | {"tube": "b", "more": 1}]
    lines.flush()
    assert lines.taken() == [FIRST | {"more": 1}]


def test_no_name_can_end_the_turn() -> None:
    lines = Lines()
    lines.audit.acted("c", b"shop", Verb.KICK, b"a\xff", allowed=True)
    assert lines.taken()[0]["tube"] == "a\\xff"


def test_nothing_is_kept_of_what_is_over() -> None:
    lines = Lines()
    lines.acts()
    lines.flush()
    assert not lines.audit.lines
    assert not lines.audit.left_out
