"""What time does to a server's jobs: delays, reservations, pauses and waits end.

There is one heap of timers over tubes and sessions, so nothing is ever scanned. When time passes several moments at
once, every job that is due becomes ready first, then those who wait get the best of them, and only then is anybody
told that there is none.
"""

import cython
from cython.cimports.beanpole.engine.heap import Item
from cython.cimports.beanpole.engine.job import Job
from cython.cimports.beanpole.engine.session import Session
from cython.cimports.beanpole.engine.store import Store
from cython.cimports.beanpole.engine.tube import Tube
from cython.cimports.libc.stdint import int64_t

from beanpole import limits

JOBS_PER_TICK = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_TICK)


@cython.cclass
class Clockwork(Store):
    """A store that time passes for. The fields stand in ``store.pxd``."""

    def tick(self, now_ns: int64_t) -> None:
        """Do what is due: delayed jobs, reservations, pauses and waiting sessions.

        At the most JOBS_PER_TICK jobs move; if more are due, `next_deadline_ns` stays in the past.
        """
        if self.timers.count and self.timers.entries[0].key <= now_ns:
            self.run_timers(now_ns)

    def run_timers(self, now_ns):
        """Run the timers that are due: first every job that becomes ready, then the sessions that wait for one."""
        item: Item
        changed = []
        waiting = []
        while self.timers.count and self.timers.entries[0].key <= now_ns and len(changed) < JOBS_PER_TICK:
            item = cython.cast(Item, self.timers.entries[0].item)
            self.timers.remove(item)
            if isinstance(item, Tube):
                self.run_tube_timer(now_ns, cython.cast(Tube, item), changed)
            else:
                self.run_session_timer(now_ns, cython.cast(Session, item), changed)
                if cython.cast(Session, item).waiting:
                    waiting.append(item)
        self.offer_all(now_ns, changed)
        for session in waiting:
            if cython.cast(Session, session).waiting:
                self.answer_waiting(now_ns, session)
        return 0

    def run_tube_timer(self, now_ns, tube, changed):
        """End a tube's pause and its jobs' delays as far as they are over; arm the timer for the rest."""
        job: Job
        if 0 < tube.paused_until_ns <= now_ns:
            tube.paused_until_ns = 0
            tube.pause_s = 0
            self.records.pause_over(tube)
            changed.append(tube)
        while tube.delayed.count and tube.delayed.entries[0].key <= now_ns and len(changed) < JOBS_PER_TICK:
            job = cython.cast(Job, tube.delayed.entries[0].item)
            self.make_ready(job)
            changed.append(tube)
        if tube.delayed.count:
            self.arm(tube, tube.number, tube.delayed.entries[0].key)
        if tube.paused_until_ns:
            self.arm(tube, tube.number, tube.paused_until_ns)
        return 0

    def run_session_timer(self, now_ns, session, changed):
        """Take back the jobs whose TTR is over; arm the timer for the rest."""
        job: Job
        while session.reserved.count and session.reserved.entries[0].key <= now_ns and len(changed) < JOBS_PER_TICK:
            job = cython.cast(Job, session.reserved.entries[0].item)
            job.timeout_count += 1
            self.timeout_count += 1
            self.make_ready(job)
            if self.records.room_for_change():
                self.records.changed(job)
            changed.append(job.tube)
        if session.reserved.count:
            self.arm(session, session.number, session.reserved.entries[0].key)
        return 0

    def answer_waiting(self, now_ns, session):
        """Answer a session that has waited for something other than a job; else arm its timer again."""
        if self.deadline_soon(now_ns, session):
            return self.wake(session, b"DEADLINE_SOON\r\n")
        if session.half_closed or 0 <= session.wait_until_ns <= now_ns:
            return self.wake(session, b"TIMED_OUT\r\n")
        return self.wait(session, session.wait_until_ns)

    def half_close(self, now_ns, session):
        """Tell that no more input can come: the session can't wait any more."""
        session.half_closed = True
        if session.waiting:
            self.answer_waiting(now_ns, session)
        return 0
