"""Old clients whose handler fails: the rules of their tube retry its jobs ever later, and put the dead aside.

No client here knows that there are rules: it reserves, releases, buries, deletes, dies or takes too long.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.old import OldClient, ask, set_rules
from tests.servers import Server, beanpole_server

BACKOFF_S = 0.1
FACTOR = 3
LEAST = 0.8
"""A backoff is drawn out by chance: up to a fifth less."""

ATTEMPTS = 3
BODY = b"poison\r\n\0"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all; each test works in tubes of its own."""
    with beanpole_server() as running:
        yield running


class Team:
    """Connections of one kind of client to a tube with rules and to its tube for the dead."""

    def __init__(self, server: Server, kind: type[OldClient], name: str) -> None:
        self.server = server
        self.kind = kind
        self.tube = f"{kind.__name__}-{name}"
        self.dead = self.tube + "-dead"
        self.opened: list[OldClient] = []
        self.worker = self.connect()
        self.undertaker = self.connect(self.dead)

    def connect(self, tube: str | None = None) -> OldClient:
        self.opened.append(self.kind(self.server.port, tube or self.tube))
        return self.opened[-1]

    def rules(self, *more: str) -> None:
        backoff = f"backoff: {BACKOFF_S} factor {FACTOR}"
        set_rules(self.server, self.tube, f"attempts: {ATTEMPTS}", backoff, *more)


NewTeam = Callable[[str], Team]


@pytest.fixture
def new_team(server: Server, kind: type[OldClient]) -> Iterator[NewTeam]:
    """Makes a team with tubes of a name."""
    teams: list[Team] = []

    def make(name: str) -> Team:
        teams.append(Team(server, kind, name))
        return teams[-1]

    yield make
    for team in teams:
        for client in team.opened:
            client.close()


def release(team: Team, id: int) -> float:
    team.worker.release(id)
    return 0


def release_with_a_delay(team: Team, id: int) -> float:
    team.worker.release(id, 1)
    return 1


def lose_the_connection(team: Team, _: int) -> float:
    team.worker.close()
    team.worker = team.connect()
    return 0


def take_too_long(team: Team, _: int) -> float:
    """The worker holds the job beyond its TTR of a second, and the next one waits for it."""
    team.worker = team.connect()
    return 0


ENDINGS = [release, release_with_a_delay, lose_the_connection, take_too_long]


@pytest.mark.parametrize("end", ENDINGS)
def test_a_handler_that_always_fails_is_tried_ever_later_and_its_job_is_put_aside(
    new_team: NewTeam, end: Callable[[Team, int], float]
) -> None:
    team = new_team(end.__name__)
    team.rules(f"dead: {team.dead}")
    ttr_s = 1 if end is take_too_long else 60
    id = team.connect().put(BODY, ttr_s)
    earliest = time.monotonic()
    for attempt in range(1, ATTEMPTS + 1):
        begun = max(time.monotonic(), earliest)
        assert team.worker.reserve() == (id, BODY)
        assert time.monotonic() >= earliest, f"attempt {attempt} came too early"
        if end is not take_too_long:
            begun = time.monotonic()
        asked_s = end(team, id)
        backoff_s = asked_s or LEAST * BACKOFF_S * FACTOR ** (attempt - 1)
        earliest = begun + backoff_s + (ttr_s if end is take_too_long else 0)
    assert team.undertaker.reserve() == (id, BODY)
    assert team.worker.reserve(0) is None
    stats = team.undertaker.stats_job(id)
    assert (stats["tube"], stats["reserves"], stats["ttr"]) == (team.dead, ATTEMPTS + 1, ttr_s)
    assert stats["releases"] == (ATTEMPTS if end in {release, release_with_a_delay} else 0)
    # Who brings the dead away has a second for it as well.
    assert stats["timeouts"] in ({ATTEMPTS, ATTEMPTS + 1} if end is take_too_long else {0})
    team.undertaker.delete(id)


def test_a_job_that_is_done_in_its_last_attempt_is_not_dead(new_team: NewTeam) -> None:
    team = new_team("last")
    team.rules(f"dead: {team.dead}")
    id = team.worker.put(BODY)
    for _ in range(ATTEMPTS - 1):
        assert team.worker.reserve() == (id, BODY)
        team.worker.release(id)
    assert team.worker.reserve() == (id, BODY)
    team.worker.delete(id)
    assert team.undertaker.reserve(0) is None


def test_dead_jobs_are_buried_where_there_is_no_tube_for_them(new_team: NewTeam) -> None:
    """The last release is answered like any other: a client takes BURIED for a server without memory."""
    team = new_team("buried")
    team.rules()
    id = team.worker.put(BODY)
    for _ in range(ATTEMPTS):
        assert team.worker.reserve() == (id, BODY)
        team.worker.release(id)
    assert team.worker.peek_buried() == id
    assert team.worker.kick(1) == 1
    for _ in range(ATTEMPTS):  # A kick forgives.
        assert team.worker.reserve(0 if _ == 0 else 30) == (id, BODY)
        team.worker.release(id)
    assert team.worker.peek_buried() == id


def test_bury_stays_bury(new_team: NewTeam) -> None:
    team = new_team("bury")
    team.rules(f"dead: {team.dead}")
    id = team.worker.put(BODY)
    assert team.worker.reserve() == (id, BODY)
    team.worker.bury(id)
    assert team.worker.peek_buried() == id
    assert team.undertaker.reserve(0) is None
    assert team.worker.kick(1) == 1
    assert team.worker.reserve(0) == (id, BODY)
    team.worker.delete(id)


def test_the_dead_are_brought_back_to_the_tube_in_which_they_died(new_team: NewTeam) -> None:
    team = new_team("back")
    set_rules(team.server, team.tube, "attempts: 1", f"dead: {team.dead}")
    ids = [team.worker.put(BODY) for _ in range(3)]
    for _ in ids:
        job = team.worker.reserve(0)
        assert job is not None
        team.worker.release(job[0])
    assert team.worker.reserve(0) is None
    assert ask(team.server, f"move-jobs {team.dead} ready 100")[0] == "MOVED 3"
    assert [team.worker.reserve(0) for _ in ids] == [(id, BODY) for id in ids]
    for id in ids:
        team.worker.delete(id)


def test_who_dies_among_the_dead_is_buried_there(new_team: NewTeam) -> None:
    team = new_team("again")
    set_rules(team.server, team.tube, "attempts: 1", f"dead: {team.dead}")
    set_rules(team.server, team.dead, "attempts: 1", f"dead: {team.tube}")
    id = team.worker.put(BODY)
    for client in (team.worker, team.undertaker):
        assert client.reserve() == (id, BODY)
        client.release(id)
    assert team.undertaker.peek_buried() == id
    assert team.worker.reserve(0) is None
