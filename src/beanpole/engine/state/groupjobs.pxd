# The header of groupjobs.py.
from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.tube cimport Group, Tube

cdef bytes group_name(Job job)
cdef Group group_of(Job job)
cdef bint is_of_group(Job job, bytes name) noexcept
cdef list first_jobs(Tube tube, bytes name, Py_ssize_t count)
cdef Job next_of_group(Tube tube, bytes name)
cdef Job first_of_group(Tube tube, Group group)
cdef Heap first_ready(Tube tube)
cdef bint is_next(Job job) noexcept
cdef Py_ssize_t ready_count(Tube tube) noexcept
