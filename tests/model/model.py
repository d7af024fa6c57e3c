"""What a queue server answers, as plainly as it can be said: the reference that the engine is compared with.

Everything is found by looking at everything: no heap, no index, no counter that could be wrong. Text is str, encoded at
the border. A session's commands stand in `todo` until `run`, which follows input and wake-ups. `tick` sets the time.
"""

# ruff: noqa: ARG002, ARG005 - every command gets the session, whether it needs it or not

from collections.abc import Callable
from typing import Any

from tests.model.bookkeeping import NEVER, SECOND, Thing, remove
from tests.model.explain import Explaining
from tests.model.keeping import Keeping
from tests.model.schedules import Scheduling
from tests.model.sessions import Listing

NEEDS: dict[str, Callable[[Thing, Thing], bool]] = {
    "peek": lambda job, session: True,
    "stats-job": lambda job, session: True,
    "reserve-job": lambda job, session: job.holder is None,
    "delete": lambda job, session: job.holder in (None, session),
    "cancel-job": lambda job, session: True,
    "release": lambda job, session: job.holder is session,
    "bury": lambda job, session: job.holder is session,
    "touch": lambda job, session: job.holder is session,
    "kick-job": lambda job, session: job.state in ("buried", "delayed"),
    "explain": lambda job, session: True,
    "snooze-job": lambda job, session: job.holder is session,
    "fail-job": lambda job, session: job.holder is session,
    "change-job": lambda job, session: job.holder in (None, session),
    "change-body": lambda job, session: job.holder is None,
}
"""When a command that names a job finds it; else the answer is NOT_FOUND."""


class Model(Scheduling, Explaining, Listing, Keeping):
    """Jobs and time, and who gets what."""

    tied = False
    """Whether the times of several sessions have ended at once where it matters whose jobs came back first."""

    def tick(self, now: int) -> None:
        self.now = now
        self.go_on_in_next_range()
        self.fire_due()
        self.serve()
        self.tokens_at = now
        while due := [job for job in self.jobs.values() if self.over_at(job) <= now or self.is_over(job)]:
            first = self.timer(
                min(due, key=lambda job: min(self.over_at(job), job.over if self.is_over(job) else NEVER))
            )
            together = [job for job in due if self.timer(job) == first]
            self.tied |= self.is_tied(due, together)
            for job in sorted(together, key=lambda job: (self.over_at(job), job.id)):
                self.end_time(job)
            self.forget_lost()
            self.forget_tubes()  # by what was due first: a tube that is needed again later is a new one
        self.pauses = {tube: pause for tube, pause in self.pauses.items() if pause[1] > now}
        for session in self.sessions:
            session.told = session.told if session.told_until > now else None
        self.serve()
        for session in [session for session in self.sessions if session.waiting]:
            if self.soon(session):
                self.answer(session, "DEADLINE_SOON")
            elif session.until <= now:
                self.answer(session, "TIMED_OUT")

    def is_tied(self, due: list[Thing], together: list[Thing]) -> bool:
        """Whether the time of others ends just as that of these, and there are groups: they remember who came first."""
        ends, others = {self.over_at(job) for job in together}, [job for job in due if job not in together]
        return any(job.group or job.tube in self.served for job in due) and any(
            self.over_at(job) in ends for job in others
        )

    def timer(self, job: Thing) -> object:
        """Those jobs of which the time ends together: when it ends of the first, of all."""
        return "over" if self.is_over(job) else (job.holder or job.tube,)

    def end_time(self, job: Thing) -> None:
        """The time is over that a job has in its state."""
        due = job.until
        if self.is_over(job):
            self.move(job, job.state)
        elif job.state == "reserved" and job.until > self.now:  # its holder may not return any more
            self.come_back(job)
        elif job.state == "reserved":
            job.timeouts += 1
            self.counts["job-timeouts"] += 1
            self.tube_counts[job.tube]["jobs-timed-out"] += 1
            self.fail(job, 0, keeps_delay=True, how="timed-out")
        else:
            self.move(job, "ready")
            job.since, job.was_due = due, True

    def run(self, session: Thing) -> None:
        while session.todo and (not session.waiting or session.todo[0] == ("cancel-reserve",)):
            verb, *words = session.todo.pop(0)
            self.counts["cmd-" + verb] += 1
            session.heard, session.verb, session.told = self.now, verb, None
            if verb in NEEDS:
                words[0] = self.jobs.get(words[0])
            found = verb not in NEEDS or (words[0] and NEEDS[verb](words[0], session))
            if reply := getattr(self, verb.replace("-", "_"))(session, *words) if found else "NOT_FOUND":
                session.verb = "bad-format" if reply == "BAD_FORMAT" else verb
                self.answer(session, reply)
            if reply == "OUT_OF_MEMORY" and verb in {"use", "watch"}:  # what is sent behind is meant for that tube
                self.quit(session)
            self.forget_tubes()
            self.serve()
        if (session.quitting or (session.half_closed and not session.todo)) and session in self.sessions:
            self.end(session)

    def half_close(self, session: Thing) -> None:
        session.half_closed = True
        if session.waiting:
            self.answer(session, "TIMED_OUT")
        self.run(session)

    def answer(self, session: Thing, reply: str) -> None:
        session.waiting = False
        session.out += reply + "\r\n"

    def serve(self) -> None:
        """Hands out jobs, the best one first, until nobody waits for one that is ready, and left to nobody."""
        waiting = [session for session in self.sessions if session.waiting]
        while job := self.best_offer([tube for session in waiting for tube in session.watched]):
            session = next(session for session in waiting if job.tube in session.watched)
            waiting.remove(session)
            if session.wants == "notice":
                self.answer(session, self.tell(session, job.tube))
                continue
            self.take(job)
            reply = self.reserve_job(session, job)
            self.note_wait(session.heard)
            self.answer(session, self.frames([job]) if session.wants == "frame" else reply)

    def best_offer(self, tubes: list[str]) -> Thing | None:
        """The best job of these tubes of which more sessions can be told, or one can be given."""
        return self.best([tube for tube in tubes if self.told_of(tube) < self.told_most(tube)])

    def told_of(self, tube: str) -> int:
        return sum(session.told == tube for session in self.sessions)

    def told_most(self, tube: str) -> int:
        """How many sessions can be told of a tube at once: one, if more jobs than one may not be there to be taken."""
        limits = {"rate", "concurrency", "breaker"} & set(self.rules_of(tube))
        return 1 if tube in self.served or limits else len(self.ready_in(tube))

    def tell(self, session: Thing, tube: str) -> str:
        session.told, session.told_until = tube, self.now + SECOND
        return "JOBS 0"

    def soon(self, session: Thing) -> bool:
        return any(job.holder is session and self.now >= job.until - SECOND for job in self.jobs.values())

    def move(self, job: Thing, state: str, until: int = NEVER, holder: Thing | None = None) -> None:
        self.buried = [other for other in self.buried if other is not job] + [job] * (state == "buried")
        if (job.superseded or job.over <= self.now) and state in {"ready", "delayed"}:
            if not job.superseded:
                self.tally("jobs-expired", job.tube, 1)
                if job.expire_dead:
                    self.die(job, "expired")
                    return
            state = "deleted"
            del self.jobs[job.id]
        job.over = NEVER if state == "buried" else job.over
        if job.state == "reserved":
            self.free_probe(job)
        job.freed |= state == "reserved" and job.until_what == "reserve"
        self.line_up(job, state)
        self.note(job, state)
        job.state, job.until, job.holder = state, until, holder
        job.home, job.since, job.was_due = job.tube, self.now, False

    def move_later(self, job: Thing, delay: float) -> None:
        job.delay = int(delay)
        self.move(job, "delayed" if delay else "ready", self.now + int(delay * SECOND) if delay else NEVER)

    # --- the commands: each returns its reply, or nothing when the session waits ---

    def put(self, session: Thing, pri: int, delay: int, ttr: int, body: str) -> str:
        session.producer = True
        if self.draining:
            return "DRAINING"
        if "unique" in self.rules_of(session.used) or self.split(session.used, None)[1]:
            return self.put_job(session, body, {"pri": pri, "delay": delay, "ttr": ttr})
        if self.is_full(session.used, 1, len(body)) or self.is_group_full(session.used, ""):
            return self.refuse(session.used)
        return f"INSERTED {self.new_job(session.used, pri, delay, ttr, body).id}"

    def new_job(self, tube: str, pri: int, delay: float, ttr: int, body: str, *, group: str = "") -> Thing:
        self.last_id += 1
        self.counts["total-jobs"] += 1
        self.tube_counts[tube]["total-jobs"] += 1
        begin: dict[str, Any] = {
            "created": self.now,
            "reserves": 0,
            "timeouts": 0,
            "releases": 0,
            "buries": 0,
            "kicks": 0,
        }
        begin |= {
            "freed": False,
            "superseded": False,
            "died": None,
            "put_by": None,
            "text": "",
            "history": [],
            "own_expire": None,
            "body_key": False,
            "over": NEVER,
            "state": "new",
            "group": group,
            "place": None,
            "was_due": False,
        }
        job = Thing(
            id=self.last_id, tube=tube, pri=pri, ttr=max(ttr, 1), body=body, key=None, until_what="delete", **begin
        )
        self.jobs[job.id] = job
        self.arrive(job)
        self.count_time(job, self.now + int(delay * SECOND))
        self.move_later(job, delay)
        return job

    def reserve(self, session: Thing, timeout: float = NEVER) -> str | None:
        session.worker = True
        if job := self.best(session.watched):
            self.take(job)
            self.note_wait(self.now)
            return self.reserve_job(session, job)
        return self.wait(session, timeout, "job")

    def wait(self, session: Thing, timeout: float, wants: str) -> str | None:
        if self.soon(session):
            return "DEADLINE_SOON"
        if timeout == 0 or session.half_closed:
            return "TIMED_OUT"
        session.waiting, session.until, session.wants = True, self.now + int(timeout * SECOND), wants
        self.sessions.remove(session)
        self.sessions.append(session)
        return None

    reserve_with_timeout = reserve

    def hold(self, session: Thing, job: Thing) -> None:
        session.worker = True
        job.held_since = self.now
        job.reserves += 1
        self.tube_counts[job.tube]["jobs-reserved"] += 1
        self.begin_attempt(job)
        self.move(job, "reserved", self.now + job.ttr * SECOND, session)

    def reserve_job(self, session: Thing, job: Thing) -> str:
        if self.stuck(job):
            return "NOT_FOUND"
        if job.state == "buried":
            self.count_time(job, self.now)
        self.hold(session, job)
        return f"RESERVED {job.id} {len(job.body)}\r\n{job.body}"

    def delete(self, session: Thing, job: Thing) -> str:
        if job.holder is session:
            self.note_success(job)
        self.move(job, "deleted")
        self.tube_counts[job.tube]["cmd-delete"] += 1
        del self.jobs[job.id]
        return "DELETED"

    def release(self, session: Thing, job: Thing, pri: int, delay: int) -> str:
        if job.over > self.now:  # else it has waited too long, and ends as it was
            job.pri = pri
        self.count_release(job)
        self.fail(job, int(delay * SECOND), how="released")
        return "RELEASED"

    def bury(self, session: Thing, job: Thing, pri: int) -> str:
        job.pri, job.under_way = pri, False
        self.count_bury(job)
        self.note_failure(job)
        self.note_end(job, "buried")
        self.move(job, "buried")
        return "BURIED"

    def touch(self, session: Thing, job: Thing) -> str:
        job.until = self.now + job.ttr * SECOND
        return "TOUCHED"

    def kick(self, session: Thing, bound: int) -> str:
        kicked = 0
        for job in self.first(session, "buried") or self.first(session, "delayed"):
            if kicked < bound and self.kick_job(session, job) == "KICKED":
                kicked += 1
                self.serve()
        return f"KICKED {kicked}"

    def kick_job(self, session: Thing, job: Thing) -> str:
        if self.stuck(job):
            return "NOT_FOUND"
        job.kicks += 1
        self.tube_counts[job.tube]["jobs-kicked"] += 1
        self.forget_attempts(job)
        if job.state == "buried":
            self.count_time(job, self.now)
        self.move(job, "ready")
        return "KICKED"

    def pause_tube(self, session: Thing, tube: str, seconds: int) -> str:
        if tube not in self.tubes:
            return "NOT_FOUND"
        self.tube_counts[tube]["cmd-pause-tube"] += 1
        self.pauses[tube] = (seconds, self.now + seconds * SECOND)
        if seconds == 0:
            del self.pauses[tube]
        return "PAUSED"

    def quit(self, session: Thing) -> None:
        session.quitting = True
        self.end(session)

    def end(self, session: Thing, *, by_server: bool = False) -> None:
        """The connection ends, by the server's side or the client's."""
        session.todo, session.waiting, session.told = [], False, None
        is_lost = self.may_be_lost(session, by_server=by_server)
        if not is_lost:
            self.forget_token(session)
        for job in [] if is_lost else self.held_by(session):
            self.come_back(job)
        while session.watched:
            remove(session.watched, session.watched[0])
            self.forget_tubes()
        self.sessions.remove(session)
        if is_lost:
            self.lose(session)
        self.forget_tubes()
        self.serve()

    def come_back(self, job: Thing) -> None:
        """Whoever held a job is gone."""
        self.tube_counts[job.tube]["jobs-lost"] += 1
        self.fail(job, 0, keeps_delay=True, how="lost")
