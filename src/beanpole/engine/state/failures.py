"""Jobs that have failed, counted as they do: by the tube in which they failed, and by what their workers said of it.

A job has failed while it is buried, or dead in another tube than the one in which it died. It is counted when it comes
into a state, and no more when it leaves it: two places in the engine (``enter_at``, ``leave``) hold for whatever
happens to a job, also in a replay. So its tags must not change what it counts as while it is in a state: who changes
them does that in between, or takes it out of the counts before (``fail-job``).

What is kept is bounded. A tube has GROUPS_PER_TUBE groups, all tubes have GROUPS_MAX; what is beyond that is summed up
in one more group of the tube, or of all tubes. While there is such a sum no other group comes beside it, so that each
job leaves the group that it came to.
"""

import cython
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.tags import Death, Tag, find_tag, read_death
from cython.cimports.libc.string import memcmp

from beanpole.protocol.reasons import error_of, first_line

WHY_WORDS = {Why.ATTEMPTS: b"attempts", Why.EXPIRED: b"expired", Why.FAILED: b"given-up"}
"""How a job died, in a word for programs."""

TUBES_MAX = cython.declare(cython.Py_ssize_t, 1_000)
GROUPS_MAX = cython.declare(cython.Py_ssize_t, 1_000)
GROUPS_PER_TUBE = cython.declare(cython.Py_ssize_t, 200)
"""Groups of a tube: errors with names in them leave room for those of other tubes."""


@cython.final
@cython.cclass
class Group:
    """Jobs that failed in one tube for one reason. The fields stand in ``failures.pxd``."""

    @property
    def ends(self) -> list[int]:
        """How many were buried, and how many died for each Why."""
        return [self.whys[0], self.whys[1], self.whys[2], self.whys[3]]


@cython.final
@cython.cclass
class Failures:
    """The counts. The fields stand in ``failures.pxd``."""

    def __cinit__(self):
        self.tubes = {}

    def groups(self) -> list[Group]:
        return [group for of_tube in self.tubes.values() for group in of_tube.values()]

    def groups_of(self, tube: bytes) -> list[Group]:
        return list(self.tubes.get(tube, {}).values())

    def add(self, job):
        """Count a job that comes into a state, if it has failed."""
        death: Death
        if not has_failed(job, cython.address(death)):
            return 0
        group: Group = self.group_of(job, cython.address(death), True)
        self.total += 1
        group.count += 1
        group.whys[death.why] += 1
        group.last_id = job.id
        if death.why:
            group.last_ns = max(group.last_ns, death.at_ns)
            group.first_ns = min(group.first_ns, death.at_ns) if group.first_ns else death.at_ns
        return 0

    def remove(self, job):
        """Count a job that leaves its state no more, if it has failed."""
        death: Death
        if not has_failed(job, cython.address(death)):
            return 0
        group: Group = self.group_of(job, cython.address(death), False)
        self.total -= 1
        group.count -= 1
        group.whys[death.why] -= 1
        if group.count:
            return 0
        groups: dict = self.tubes[group.tube]
        for key, each in groups.items():
            if each is group:
                del groups[key]
                break
        self.group_count -= 1
        if not groups:
            del self.tubes[group.tube]
        return 0

    @cython.exceptval(check=False)
    def cost(self):
        """Return what texts that differ have cost since the last call: in jobs that a kick or a delete moves instead.

        To read one takes 4 microseconds of an ordinary text, and up to 180 of 1024 bytes that are no UTF-8.
        """
        unpaid, self.unpaid = self.unpaid, 0
        return unpaid

    def group_of(self, job, death, make):
        """Return the group of a job that has failed; `make`: a new one, if there is none."""
        tube: bytes = death.tube[: death.tube_bytes] if death.why else job.tube.name
        key: object = death.why
        line: str = ""
        error: str = ""
        size: cython.Py_ssize_t = 0
        said: cython.p_const_char = cython.NULL
        if job.tag_bytes:
            said = find_tag(job, Tag.FAILURE_TEXT, cython.address(size))
        if said is not cython.NULL:
            text: bytes = said[:size]
            if text != self.last_text:
                self.last_text = text
                self.unpaid += 10 + size * 5 // 8
                self.last_line = first_line(text.decode("utf-8", "backslashreplace"))
                self.last_error = error_of(self.last_line)
            line, error = self.last_line, self.last_error
            if error:
                key = error
        groups: dict = self.tubes.get(tube)
        if groups is None and (None in self.tubes or len(self.tubes) >= TUBES_MAX):
            tube, key = None, None
            groups = self.tubes.get(None)
        if groups is None:
            groups = self.tubes[tube] = {}
        group: Group = groups.get(key)
        if group is None and (None in groups or len(groups) >= GROUPS_PER_TUBE or self.group_count >= GROUPS_MAX):
            key = None
            group = groups.get(None)
        if group is None:
            assert make, "a job that has failed was not counted"
            group = Group()
            group.tube = tube
            group.error = None if key is None else error
            groups[key] = group
            self.group_count += 1
        if make and key is not None:
            group.line = line
        return group


@cython.cfunc
@cython.exceptval(check=False)
def has_failed(job: Job, death: cython.pointer(Death)) -> cython.bint:
    """Whether a job is buried, or dead in another tube: one that was kicked where it died is work again.

    `death` is set; its `why` is 0 if the job is buried without.
    """
    if not read_death(job, death):
        death.why = 0
        return job.state == State.BURIED
    if not 0 < death.why <= Why.FAILED:
        death.why = Why.ATTEMPTS
    name: cython.p_const_char = job.tube.name
    is_elsewhere: cython.bint = (
        death.tube_bytes != len(job.tube.name) or memcmp(death.tube, name, death.tube_bytes) != 0
    )
    return is_elsewhere or job.state == State.BURIED
