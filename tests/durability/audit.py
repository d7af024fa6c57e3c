"""What is found after a restart, held against what was promised before it."""

from collections.abc import Sequence
from typing import Protocol

from tests.durability.kept import facts, jobs_count, put_line
from tests.durability.ledger import Ledger, Market, Promised
from tests.e2e.process import Client, wait_until

AT_ONCE = 200
"""Requests in flight while looking."""

NOT_FOUND = b"NOT_FOUND\r\n"


def peek_all(client: Client, ids: list[int]) -> dict[int, bytes]:
    """The bodies of those jobs that are there."""
    found: dict[int, bytes] = {}
    for at in range(0, len(ids), AT_ONCE):
        some = ids[at : at + AT_ONCE]
        client.send(b"".join(b"peek %d\r\n" % each for each in some))
        for id in some:
            line = client.line()
            if line != NOT_FOUND:
                assert line.startswith(b"FOUND %d " % id), f"peek {id} was answered with {line!r}"
                found[id] = client.take(int(line.split()[2]) + 2)[:-2]
    return found


def stats_of(client: Client, ids: list[int]) -> dict[int, dict[str, str]]:
    """What stats-job says of jobs that are there."""
    client.send(b"".join(b"stats-job %d\r\n" % id for id in ids))
    return {id: dict(line.split(": ", 1) for line in client.body().decode().splitlines()[1:]) for id in ids}


def probe(client: Client) -> int:
    """The next id, used up; on a full disk it takes a while until there is space for a put."""
    ids: list[int] = []

    def taken() -> bool:
        client.send(put_line(b"probe"))
        line = client.line()
        if line.startswith(b"INSERTED "):
            ids.append(int(line.split()[1]))
        return bool(ids)

    wait_until(taken, "a put is taken")
    client.ask(b"delete %d\r\n" % ids[0], b"DELETED\r\n")
    return ids[0]


class Others(Protocol):
    """Clients that look after their jobs themselves."""

    known: list[int]
    """Ids that were their jobs'."""

    def audit(self, client: Client, *, restarted: bool) -> None:
        """Compare what is there with what must be."""

    def states(self) -> list[str]:
        """Return the states of their jobs."""


class Auditor:
    """Looks at a server after each restart, and brings the ledgers up to what was found."""

    def __init__(
        self, hermits: dict[str, Ledger], market: Market, others: Sequence[Others] = (), *, may_be_full: bool = False
    ) -> None:
        self.may_be_full = may_be_full
        self.others = others
        self.hermits = hermits
        self.market = market
        self.last_id = 0
        self.found_count = 0

    def audit(self, client: Client) -> None:
        """Checks everything."""
        self.found_count = 0
        for each in self.others:
            each.audit(client, restarted=True)
            self.found_count += len(each.states())
        next_id = probe(client)
        assert next_id > self.last_id, f"the id {self.last_id} was seen, and {next_id} is given now"
        self.check_given(next_id)
        self.find_unanswered(client, next_id)
        for tube, ledger in self.hermits.items():
            ledger.restart()
            self.check_hermit(client, tube, ledger)
        self.check_market(client)
        assert jobs_count(client) == self.found_count, "there are jobs that nobody put"
        self.last_id = next_id

    def check_given(self, next_id: int) -> None:
        """Checks that the next id is behind every id that was ever told."""
        told = [id for ledger in self.hermits.values() for id in (*ledger.jobs, *ledger.deleted)]
        told += [*self.market.put, *self.market.deleted]
        assert max(told, default=0) < next_id, f"the id {max(told)} was told, and {next_id} is given now"

    def find_unanswered(self, client: Client, next_id: int) -> None:
        """Gives the jobs that were put without an answer to those who put them."""
        known = {id for ledger in self.hermits.values() for id in (*ledger.jobs, *ledger.deleted)}
        known |= self.market.put.keys() | self.market.deleted | self.market.delete_asked
        known.update(*(each.known for each in self.others))
        new = [id for id in range(self.last_id + 1, next_id) if id not in known]
        owners = {job.body: (ledger, job) for ledger in self.hermits.values() for job in ledger.puts}
        for id, body in peek_all(client, new).items():
            if body in owners:
                ledger, job = owners.pop(body)
                while self.may_be_full and ledger.puts[0] is not job:
                    ledger.puts.pop(0)  # It may have been refused, and the next, being smaller, not.
                assert ledger.puts[0] is job, "a put survived, and one before it on the same connection did not"
                ledger.acknowledge_put(id)
            else:
                assert body in self.market.offered, f"job {id} has a body that nobody sent: {body[:100]!r}"
                self.market.put[id] = body
        for ledger in self.hermits.values():
            ledger.puts.clear()

    def check_hermit(self, client: Client, tube: str, ledger: Ledger) -> None:
        """Checks the jobs of one hermit: bodies, states, counters, the order of the buried."""
        bodies = peek_all(client, list(ledger.jobs))
        stats = stats_of(client, list(bodies))
        for id in [*(id for id in ledger.jobs if id not in ledger.asked), *ledger.asked]:
            job, uncertain = ledger.jobs[id], id in ledger.asked
            wanted = ledger.asked.pop(id, None)
            if id not in bodies:
                assert uncertain, f"job {id} was acknowledged and is lost: {job}"
                assert wanted is None, f"job {id} was acknowledged and is lost: {job}"
                ledger.settle(id, None)
                continue
            assert bodies[id] == job.body, f"job {id} has another body"
            assert stats[id]["tube"] == tube, f"job {id} is in another tube"
            assert int(stats[id]["file"]) > 0, f"job {id} is in no segment"
            ledger.settle(id, self.outcome(job, wanted, stats[id]))
        self.found_count += len(ledger.jobs)
        if ledger.buried:
            client.ask(b"use %b\r\n" % tube.encode(), b"USING %b\r\n" % tube.encode())
            client.send(b"peek-buried\r\n")
            line = client.line()
            assert int(line.split()[1]) == ledger.buried[0], "the buried jobs have another order"
            client.take(int(line.split()[2]) + 2)
            client.ask(b"use default\r\n", b"USING default\r\n")

    def outcome(self, job: Promised, wanted: Promised | None, found: dict[str, str]) -> Promised:
        """Which of the two that a job may be it is."""
        for each in (job, wanted):
            if each is not None and each.agrees(found):
                each.reserves = int(found["reserves"])
                return each
        raise AssertionError(f"job {job.id} was {job}, was asked to be {wanted}, and is {found}")

    def check_market(self, client: Client) -> None:
        """Checks the jobs of the shared tube."""
        market = self.market
        bodies = peek_all(client, list(market.put))
        for id, body in market.put.items():
            if id in bodies:
                assert id not in market.deleted, f"job {id} was deleted and is back"
                assert bodies[id] == body, f"job {id} has another body"
            else:
                assert id in market.delete_asked, f"job {id} was acknowledged and is lost"
                market.deleted.add(id)
        market.put = bodies
        market.delete_asked.clear()
        self.found_count += len(bodies)

    def check_deleted(self, client: Client) -> None:
        """Checks that nothing that was ever deleted is back."""
        gone = sorted(self.market.deleted.union(*(ledger.deleted for ledger in self.hermits.values())))
        assert not peek_all(client, gone), "jobs that were deleted are back"

    def check_counts(self, client: Client) -> None:
        """Checks that the sums of the statistics are those of the jobs."""
        found = facts(client)
        states = [job.state for ledger in self.hermits.values() for job in ledger.jobs.values()]
        states += [state for each in self.others for state in each.states()]
        for state, more in (("ready", len(self.market.put)), ("delayed", 0), ("buried", 0), ("reserved", 0)):
            assert int(found[f"current-jobs-{state}"]) == states.count(state) + more, state
