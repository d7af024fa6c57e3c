"""The extensions that are about many jobs or tubes, in the reference model. Options stand last, as a dict."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from typing import Any
from urllib.parse import quote

from tests.model.bookkeeping import SECOND, Thing, listed, seconds
from tests.model.failures import Failures

RESTING = ("ready", "delayed", "buried")
TALLIED = (
    "jobs-expired",
    "jobs-dead",
    "jobs-moved-in",
    "jobs-moved-out",
    "jobs-cleared",
    "jobs-cancelled",
    "jobs-replaced",
    "puts-merged",
    "puts-refused",
    "jobs-reserved",
    "jobs-released",
    "jobs-buried",
    "jobs-kicked",
    "jobs-timed-out",
    "jobs-lost",
)


def wanted(job: Thing) -> tuple[str, str] | None:
    """The key that a job has, whether it holds it or not: a word for its kind, and what it is."""
    if job.body_key:
        return ("body", job.body)
    return ("key", job.key) if job.key else None


class ManyJobs(Failures):
    """Clearing, moving, listing."""

    def jobs_in(self, tube: str, *states: str) -> list[Thing]:
        """The jobs of a tube in some states, by id."""
        jobs = [job for job in self.jobs.values() if job.tube == tube and job.state in states]
        return sorted(jobs, key=lambda job: job.id)

    def tally(self, key: str, tube: str, number: int) -> None:
        self.counts[key] += number
        self.tube_counts[tube][key] += number

    def tally_move(self, tube: str, target: str) -> None:
        self.tally("jobs-moved-out", tube, target != tube)
        self.tally("jobs-moved-in", target, target != tube)

    def clear_tube(self, session: Thing, tube: str, *states: str) -> str:
        gone = self.jobs_in(tube, *states or RESTING)
        for job in gone:
            self.move(job, "deleted")
            del self.jobs[job.id]
        self.tally("jobs-cleared", tube, len(gone))
        return f"CLEARED {len(gone)}"

    def move_jobs(self, session: Thing, tube: str, state: str, bound: int, options: dict[str, str]) -> str:
        moved = [job for job in self.jobs_in(tube, state) if not job.superseded]
        if "to" not in options:
            moved = [job for job in moved if job.died and (job.died[0] != tube or state == "buried")]
        done = 0
        for job in moved[:bound]:
            target = options["to"] if "to" in options else job.died[0]
            if self.is_one_too_many(target) or (target != tube and self.is_full(target, 1, len(job.body))):
                break
            done += 1
            job.kicks += job.died is not None
            job.died = None
            if not job.freed and self.holder(target, wanted(job)) not in (None, job):
                job.key, job.body_key = None, False
            job.tube = self.open_tube(target)
            self.arrive(job)
            self.count_time(job, job.until if state == "delayed" else self.now)
            job.home, job.since, job.was_due = job.tube, self.now, False
            if state == "buried":
                self.move(job, "ready")
            else:
                self.line_up(job, state)
            self.tally_move(tube, target)
            self.serve()
        return f"MOVED {done}"

    def list_jobs(self, session: Thing, tube: str, state: str, limit: int, options: dict[str, Any]) -> str:
        if "order" in options:
            is_grouped = state == "ready" and tube in self.served
            line = self.heads(tube) if is_grouped else self.first(Thing(used=tube), state)
            jobs, more = line[:limit], False
        else:
            behind = [job for job in self.jobs_in(tube, state) if job.id > options.get("after", 0)]
            jobs, more = behind[:limit], len(behind) >= limit
        first = f"JOBS {len(jobs)}" + (f" next={jobs[-1].id}" if more else "")
        return "\r\n".join(
            [first, *(self.frame(job, options.get("bodies", 0), options.get("fields", "")) for job in jobs)]
        )

    def frame(self, job: Thing, shown_bytes: int | None = None, fields: str = "") -> str:
        """A job with its body, or with the front of it and the size of the whole, and with what else was asked for."""
        shown = job.body[:shown_bytes]
        line = (
            f"JOB {job.id} {len(shown)} tube={job.tube} state={job.state} pri={job.pri} ttr={job.ttr} "
            f"age={seconds(self.now - job.created)} delay={job.delay} reserves={job.reserves} timeouts={job.timeouts} "
            f"releases={job.releases} buries={job.buries} kicks={job.kicks}"
        )
        line += "" if job.attempt is None else f" attempt={job.attempt}"
        line += f" attempts={rules['attempts']}" if "attempts" in (rules := self.rules_of(job.tube)) else ""
        line += "" if job.key is None else f" key={job.key}"
        line += f" group={job.group}" if job.group else ""
        line += str(self.put_by(job))
        if job.died:
            line += (
                f" from={job.died[0]}" if job.died[0] != job.tube else ""
            ) + f" died={seconds(max(job.died[1] + self.lead, 0))}"
        line += "" if shown_bytes is None else f" size={len(job.body)}"
        more = {
            "session": f" session={job.holder.number}" if job.state == "reserved" else "",
            "left": f" left={seconds(job.until - self.now)}" if job.state in {"reserved", "delayed"} else "",
            "reason": (f" why={job.died[3]} tried={job.died[2]}" if job.died else "")
            + (f" reason={quote(job.text)}" if job.text else ""),
            "history": " history=" + quote("\n".join(map(self.line_of_end, job.history))) if job.history else "",
        }
        return line + "".join(text for name, text in more.items() if name in fields.split(",")) + f"\r\n{shown}"

    def line_of_end(self, end: tuple[int, str, str, str]) -> str:
        at, how, by, error = end
        ms = max(at + self.lead, 0) * 1000 // SECOND
        return f"{ms // 1000}.{ms % 1000:03}\t{how}\t{by}\t{error}"

    def stats_tubes(self, session: Thing, options: dict[str, Any]) -> str:
        names = sorted(tube for tube in self.tubes if tube > options.get("after", ""))[: options.get("limit", 1000)]
        return listed("---\n" + "".join(self.item(session, tube) for tube in names))

    def item(self, session: Thing, tube: str) -> str:
        lines = self.stats_tube(session, tube).split("---\n")[1].splitlines()
        lines += [f"{key}: {self.tube_counts[tube][key]}" for key in TALLIED]
        begun = min((job.since // SECOND for job in self.jobs_in(tube, "ready")), default=self.now // SECOND) * SECOND
        least, most = max(self.now - begun - SECOND, 0), max(self.now - begun, 1)
        lines.append(f"oldest-ready: {int(2.0 * least * most / (least + most)) // SECOND}")
        lines.append(f"breaker-closed: {int(self.broken(tube) is not None)}")
        return "- " + "\n  ".join(lines) + "\n"
