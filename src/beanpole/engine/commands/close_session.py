"""The end of a session: the jobs that it holds come back, and it watches its tubes no more, a piece in each turn.

Jobs come back in the order in which their times to run would have ended, and after each piece those who wait get the
best of what is ready. Until its turn has come, a job is held by the session that is closed: its time to run does not
end any more, and nobody else can take, touch or delete it.

All sessions that end in a turn share what may be moved in it (``Engine.moves_left``), so that many that hold few jobs
take no longer than one that holds many.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, leave_to_ticks
from cython.cimports.beanpole.engine.commands.serve import offer_all
from cython.cimports.beanpole.engine.policies.retry import End, come_back
from cython.cimports.beanpole.engine.policies.throttle import and_opened
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Watch
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits

FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)


@cython.cclass
class Leave(LongCommand):
    """The end of a session that is under way. The fields stand in ``close_session.pxd``."""

    def go_on_alone(self, queue):
        """Let the next jobs come back, and when all have, drop the next tubes that the session watches."""
        session: Session = self.session
        changed: list = []
        while session.reserved.count and queue.moves_left > 0:
            job: Job = cython.cast(Job, session.reserved.entries[0].item)
            job.tube.total_lost_count += 1
            queue.moves_left -= 1
            if job.tube.rules is None and job.tag_bytes == 0:
                queue.make_ready(job)
            else:
                written: int64_t = come_back(queue, queue.now_ns, job, End.LOST, 0, False)
                queue.moves_left -= 1 + written // FAILED_BYTES_PER_JOB
            changed.append(job.tube)
        while session.watches and queue.moves_left > 0:
            queue.drop_watch(session, cython.cast(Watch, session.watches[0], typecheck=True))
            queue.moves_left -= 1
        offer_all(queue, queue.now_ns, and_opened(queue, changed))
        return session.reserved.count != 0 or len(session.watches) != 0


def end_session(queue, session):
    """Let a session give back its jobs and drop its tubes, as far as that may be done in this turn."""
    work: Leave = Leave()
    work.session = session
    return leave_to_ticks(queue, work)
