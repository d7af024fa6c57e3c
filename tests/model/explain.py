"""explain and explain-tube in the reference model."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from typing import Any

from tests.model.bookkeeping import NEVER, Thing, listed, seconds
from tests.model.groups import Groups
from tests.model.many import wanted

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


def reason(word: str, **facts: object) -> str:
    """A word and its facts."""
    shown = [
        f'"{name.replace("_", "-")}": {str(value).lower()}' if isinstance(value, bool) else f'"{name}": {value}'
        for name, value in facts.items()
    ]
    return f"{word}: {{{', '.join(shown)}}}"


def who(session: Thing) -> dict[str, object]:
    """A session, and its name."""
    return {"session": session.number} | ({"name": quoted(session.name)} if session.name else {})


def some(things: list[Thing]) -> dict[str, object]:
    """How many there are, and the ids of the first."""
    return {"count": len(things), "ids": [thing.id for thing in things[:NAMED_MAX]]}


class Explaining(Groups):
    """Why nothing happens."""

    def explain(self, session: Thing, job: Thing) -> str:
        line = self.line_of(job)
        said = {"id": job.id, "tube": job.tube, "state": job.state}
        if job.state == "reserved":
            return answer(said, self.why_held(job) + self.past(job))
        before = line.index(job)
        if job.state == "buried":
            return answer(said | {"place": before + 1}, self.why_buried(job) + self.past(job))
        after = {"attempt": job.attempt} if job.attempt else {}
        delayed = [reason("delayed", left=seconds(job.until - self.now), **after)]
        ahead = [reason("order", before=before)]
        reasons = delayed * (job.state == "delayed") + self.why_closed(job.tube)
        reasons += [reason("group", **facts)] if (facts := self.facts_of_group(job)) else []
        reasons += ahead * (job.state == "ready" and before > 0) + self.why_nobody(job.tube)
        reasons += (
            [reason("expires", left=seconds(job.over - self.now), dead=job.expire_dead)] if job.over < NEVER else []
        )
        return answer(said | {"place": before + 1}, reasons + self.past(job))

    def past(self, job: Thing) -> list[str]:
        """What has gone wrong with a job before."""
        reasons, rules = [], self.rules_of(job.tube)
        if job.attempt:
            limit = {"limit": rules["attempts"]} if "attempts" in rules else {}
            reasons.append(reason("attempts", attempt=job.attempt, **limit, under_way=job.under_way))
        if job.put_by:
            schedule, at, fire = job.put_by
            which = {"fire": fire} if fire else {}
            reasons.append(reason("scheduled", schedule=quoted(schedule), scheduled=seconds(at), **which))
        if job.died:
            tube, when, attempts, why = job.died
            ago = seconds(self.now - when)
            reasons.append(reason("died", ago=ago, tube=quoted(tube), attempts=attempts, why=quoted(why)))
        if job.text:
            reasons.append(reason("failed", reason=quoted(job.text)))
        for at, how, by, error in job.history:
            known = {"by": by, "error": error}
            said = {name: quoted(text) for name, text in known.items() if text}
            reasons.append(reason("ended", ago=seconds(self.now - at), how=quoted(how), **said))
        return reasons

    def why_held(self, job: Thing) -> list[str]:
        heard, left = seconds(self.now - job.holder.heard), seconds(job.until - self.now)
        reasons = [reason("reserved", **who(job.holder), silent=heard, left=left, ttr=job.ttr)]
        if job.holder in self.lost:
            silent, left = seconds(self.now - job.holder.lost), seconds(job.holder.ends - self.now)
            reasons = [reason("lost", session=job.holder.number, silent=silent, left=left, ttr=job.ttr)]
        reasons += [reason("expires", dead=job.expire_dead)] * (job.over <= self.now)
        reasons += [reason("timeouts", count=job.timeouts)] if job.timeouts else []
        return reasons + [reason("superseded", state='"reserved"')] * job.superseded

    def why_buried(self, job: Thing) -> list[str]:
        reasons = [reason("buried")]
        if job.superseded:
            return [*reasons, reason("superseded", state='"buried"')]
        if not job.freed and (holder := self.holder(job.tube, wanted(job))):
            reasons.append(reason("key", job=holder.id))
        return reasons

    def why_closed(self, tube: str) -> list[str]:
        reasons = []
        if tube in self.pauses:
            reasons.append(reason("paused", left=seconds(self.pauses[tube][1] - self.now)))
        if (wait := self.tokens(tube)[0] - self.now) > 0:
            reasons.append(reason("rate", left=seconds(wait)))
        if self.is_taken(tube):
            reasons.append(reason("concurrency", held=self.held(tube), limit=self.rules_of(tube)["concurrency"]))
        if breaker := self.broken(tube):
            failed, ends = self.recent(tube)
            when: dict[str, object] = {"left": seconds(max(breaker.probe_at - self.now, 0))}
            when = {"probe": breaker.probe} if breaker.probe else when
            reasons.append(reason("breaker", failed=failed, of=ends, ago=seconds(self.now - breaker.since), **when))
        return reasons

    def why_full(self, tube: str) -> list[str]:
        rules, waiting = self.rules_of(tube), len(self.jobs_in(tube, "ready", "delayed"))
        size = sum(len(job.body) for job in self.jobs_in(tube, "ready", "reserved", "delayed", "buried"))
        jobs_max, bytes_max = (int(rules.get(name, 0)) for name in ("jobs-max", "bytes-max"))
        return [reason("full", rule='"jobs-max"', limit=jobs_max, count=waiting)] * (0 < jobs_max <= waiting) + [
            reason("full", rule='"bytes-max"', limit=bytes_max, count=size)
        ] * (0 < bytes_max <= size)

    def why_nobody(self, tube: str) -> list[str]:
        watching = [session for session in self.sessions if tube in session.watched]
        reasons = [reason("told", count=self.told_of(tube))] if self.told_of(tube) else []
        if any(session.waiting for session in watching):
            return reasons
        reasons += [reason("busy", watching=len(watching)) if watching else reason("unwatched")]
        others = sum(session.waiting for session in self.sessions)
        return reasons + [reason("elsewhere", waiting=others)] * (others > 0)

    def explain_tube(self, session: Thing, tube: str) -> str:
        if tube not in self.tubes:
            return "NOT_FOUND"
        there = {state: self.jobs_in(tube, state) for state in ("ready", "reserved", "delayed", "buried")}
        watching = [other for other in self.sessions if tube in other.watched]
        waiting = [other for other in watching if other.waiting]
        said = {"tube": tube} | {state: len(jobs) for state, jobs in there.items()}
        reasons = self.why_closed(tube) + self.why_full(tube) + [reason("empty")] * (not there["ready"])
        if there["ready"] and tube in self.served and not self.heads(tube):
            reasons.append(reason("groups", ready=len(there["ready"])))
        if there["delayed"]:
            first, count = self.first(Thing(used=tube), "delayed")[0], len(there["delayed"])
            left = seconds(first.until - self.now)
            reasons.append(reason("delayed", count=count, first=first.id, left=left))
        reasons += [reason("reserved", **some(there["reserved"]))] if there["reserved"] else []
        reasons += [reason("buried", **some(self.first(Thing(used=tube), "buried")))] if there["buried"] else []
        names = ", ".join(reason("", **who(other))[2:] for other in waiting)
        reasons += [reason("waiting", count=len(waiting), sessions=f"[{names}]")] if waiting else []
        reasons += self.why_nobody(tube)
        return answer(said | {"watching": len(watching), "waiting": len(waiting)}, reasons)
