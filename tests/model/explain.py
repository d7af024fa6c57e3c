"""explain and explain-tube in the reference model."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from abc import ABC, abstractmethod
from typing import Any

from tests.model.bookkeeping import NEVER, Thing, listed
from tests.model.many import seconds, wanted
from tests.model.rules import Rules

NAMED_MAX = 10


def answer(said: dict[str, Any], reasons: list[str]) -> str:
    """What is said first, and the reasons."""
    lines = [f"{key}: {value}" for key, value in said.items()]
    lines += ["reasons:", *(f"- {reason}" for reason in reasons)] if reasons else ["reasons: []"]
    return listed("---\n" + "".join(f"{line}\n" for line in lines))


def quoted(text: str) -> str:
    """What somebody wrote, of which a byte may be no character, on one line."""
    found = text.encode("latin-1").decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in found) + '"'


def who(session: Thing) -> str:
    """A session, and its name so that it stays within a string of YAML without quotes."""
    name = quoted(session.name).replace(": ", ":\\u0020").replace(" #", "\\u0020#")
    return f"session {session.number} ({name})" if session.name else f"session {session.number}"


def some(things: list[Thing]) -> str:
    """The first of them, by id, and whether there are more."""
    ids = ", ".join(str(thing.id) for thing in things[:NAMED_MAX])
    return f"{len(things)} job{'s' * (len(things) > 1)}, by id {ids}" + " and others" * (len(things) > NAMED_MAX)


class Explaining(Rules, ABC):
    """Why nothing happens."""

    @abstractmethod
    def jobs_in(self, tube: str, *states: str) -> list[Thing]:
        """The jobs of a tube in some states, by id."""

    @abstractmethod
    def holder(self, tube: str, key: tuple[str, str] | None) -> Thing | None:
        """The job that holds a key in a tube."""

    def explain(self, session: Thing, job: Thing) -> str:
        line = self.first(Thing(used=job.tube), job.state)
        said = {"id": job.id, "tube": job.tube, "state": job.state}
        if job.state == "reserved":
            return answer(said, self.why_held(job) + self.past(job))
        before = line.index(job)
        if job.state == "buried":
            return answer(said | {"place": before + 1}, self.why_buried(job) + self.past(job))
        why = f"after attempt {job.attempt}" if job.attempt else "as was asked"
        delayed = [f"delayed: it is ready in {seconds(job.until - self.now)} s, {why}"]
        ahead = [f"order: {before} job{'s' * (before > 1)} of the tube before it"]
        reasons = delayed * (job.state == "delayed") + self.why_closed(job.tube)
        reasons += ahead * (job.state == "ready" and before > 0) + self.why_nobody(job.tube)
        reasons += (
            [f"expires: it is {'dead' if job.expire_dead else 'deleted'} in {seconds(job.over - self.now)} s"]
            if job.over < NEVER
            else []
        )
        return answer(said | {"place": before + 1}, reasons + self.past(job))

    def past(self, job: Thing) -> list[str]:
        """What has gone wrong with a job before."""
        reasons, rules = [], self.rules_of(job.tube)
        if job.attempt:
            of = f" of {rules['attempts']}" if "attempts" in rules else ""
            ends = "is under way" if job.under_way else "is over"
            reasons.append(f"attempts: attempt {job.attempt}{of} {ends}")
        if job.died:
            tube, when, attempts, why = job.died
            count = f"{attempts} attempt{'s' * (attempts != 1)}"
            reasons.append(f"died: {seconds(self.now - when)} s ago in {tube}, after {count}, as {why}")
        if job.text:
            reasons.append(f"failed: {quoted(job.text)}")
        return reasons

    def why_held(self, job: Thing) -> list[str]:
        heard, left = seconds(self.now - job.holder.heard), seconds(job.until - self.now)
        reasons = [f"reserved: by {who(job.holder)}, last heard of {heard} s ago; {left} s of {job.ttr} s are left"]
        times = f"{job.timeouts} time{'s' * (job.timeouts > 1)}"
        what = "dead" if job.expire_dead else "deleted"
        over = f"expires: it has waited too long; when it comes back, it is {what}"
        reasons += [over] * (job.over <= self.now)
        reasons += [f"timeouts: its time to run has ended {times} before"] if job.timeouts else []
        return reasons + ["superseded: another job has its key; when it comes back, it is deleted"] * job.superseded

    def why_buried(self, job: Thing) -> list[str]:
        reasons = ["buried: until it is kicked, moved or reserved by its id"]
        if job.superseded:
            return [*reasons, "superseded: another job took its key while it was held; kick passes over it"]
        if not job.freed and (holder := self.holder(job.tube, wanted(job))):
            reasons.append(f"key: job {holder.id} has its key; kick passes over it")
        return reasons

    def why_closed(self, tube: str) -> list[str]:
        reasons = []
        if tube in self.pauses:
            reasons.append(f"paused: the tube is paused for {seconds(self.pauses[tube][1] - self.now)} s more")
        if (wait := self.tokens(tube)[0] - self.now) > 0:
            reasons.append(f"rate: the next token comes in {seconds(wait)} s")
        if self.is_taken(tube):
            held, most = self.held(tube), self.rules_of(tube)["concurrency"]
            some = "jobs of the tube are" if held > 1 else "job of the tube is"
            reasons.append(f"concurrency: {held} {some} held, and reserve holds no more than {most}")
        return reasons

    def why_full(self, tube: str) -> list[str]:
        rules, waiting = self.rules_of(tube), len(self.jobs_in(tube, "ready", "delayed"))
        size = sum(len(job.body) for job in self.jobs_in(tube, "ready", "reserved", "delayed", "buried"))
        jobs_max, bytes_max = (int(rules.get(name, 0)) for name in ("jobs-max", "bytes-max"))
        return [f"full: jobs-max is {jobs_max}, and {waiting} are ready or delayed"] * (0 < jobs_max <= waiting) + [
            f"full: bytes-max is {bytes_max}, and the bodies have {size} bytes"
        ] * (0 < bytes_max <= size)

    def why_nobody(self, tube: str) -> list[str]:
        watching = [session for session in self.sessions if tube in session.watched]
        if any(session.waiting for session in watching):
            return []
        some = f"{len(watching)} session{'s' * (len(watching) > 1)}"
        reasons = [
            f"busy: of {some} that watch the tube none waits" if watching else "unwatched: no session watches the tube"
        ]
        others = sum(session.waiting for session in self.sessions)
        wait = "session waits" if others == 1 else "sessions wait"
        return reasons + [f"elsewhere: {others} {wait}, but for other tubes"] * (others > 0)

    def explain_tube(self, session: Thing, tube: str) -> str:
        if tube not in self.tubes:
            return "NOT_FOUND"
        there = {state: self.jobs_in(tube, state) for state in ("ready", "reserved", "delayed", "buried")}
        watching = [other for other in self.sessions if tube in other.watched]
        waiting = [other for other in watching if other.waiting]
        said = {"tube": tube} | {state: len(jobs) for state, jobs in there.items()}
        reasons = self.why_closed(tube) + self.why_full(tube) + ["empty: no job is ready"] * (not there["ready"])
        if there["delayed"]:
            first, count = self.first(Thing(used=tube), "delayed")[0], len(there["delayed"])
            left = seconds(first.until - self.now)
            reasons.append(
                f"delayed: {count} job{'s' * (count > 1)}, the first of them, {first.id}, is ready in {left} s"
            )
        reasons += [f"reserved: {some(there['reserved'])}"] if there["reserved"] else []
        reasons += [f"buried: {some(self.first(Thing(used=tube), 'buried'))}"] if there["buried"] else []
        names = ", ".join(who(other) for other in waiting)
        reasons += [f"waiting: {names}"] if waiting else self.why_nobody(tube)
        return answer(said | {"watching": len(watching), "waiting": len(waiting)}, reasons)
