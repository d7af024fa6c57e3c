# The header of jobtable.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.heap cimport Timed
from beanpole.engine.state.job cimport Job

cdef enum:
    BLOCK_IDS_LOG2 = 12                  # ids of a block, whose jobs are counted: 4 096
    BLOCK_SLOTS = 256                    # blocks whose counts are at hand: a backlog of a million ids
    REGION_BLOCKS_LOG2 = 14              # blocks of a region, which can be passed over in one go: 67 million ids

cdef struct Pair:
    # What a bucket of several jobs begins with.
    void *job
    void *rest                           # a link to the others: there are some

@cython.final
cdef class JobTable:
    cdef void **buckets                  # a link to the jobs of each: NULL, the only Job, or the address of a Pair + 1
    cdef readonly Py_ssize_t count       # jobs
    cdef uint64_t bucket_count
    cdef uint64_t mask                   # 2^n - 1, where 2^n <= bucket_count <= 2^(n+1)
    cdef Py_ssize_t capacity             # buckets allocated
    cdef uint64_t[BLOCK_SLOTS] block_numbers  # which block (id >> BLOCK_IDS_LOG2) a slot counts; its number % BLOCK_SLOTS
    cdef uint32_t[BLOCK_SLOTS] block_counts   # jobs in it
    cdef dict regions                    # number >> REGION_BLOCKS_LOG2 -> {number: jobs}, of the blocks in no slot that have jobs
    cdef uint64_t bucket(self, uint64_t id) noexcept
    cdef Job find(self, uint64_t id)
    cdef int add(self, Job job) except -1
    cdef int remove(self, Job job) except -1
    cdef int split(self) except -1
    cdef int merge(self) except -1
    cdef void spread(self, void *link, Pair *pair) noexcept
    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef int load_block(self, uint64_t number) except -1
    cdef bint block_empty(self, uint64_t number) except -1
    cdef uint64_t block_behind(self, uint64_t number, bint down) except? 0
    cdef bint region_empty(self, uint64_t region) except -1

cdef struct Expiring:
    int64_t at_ns                        # when the job's time to wait is over
    void *job                            # the Job, borrowed: the table of jobs keeps it alive

@cython.final
cdef class ExpiryQueue(Timed):
    cdef Expiring *entries
    cdef readonly Py_ssize_t count       # jobs
    cdef Py_ssize_t capacity             # entries allocated
    cdef int add(self, Job job, int64_t at_ns) except -1
    cdef int remove(self, Job job) except -1
    cdef int64_t at_ns_of(self, Job job) noexcept
    cdef void put_at(self, Py_ssize_t hole, Expiring entry) noexcept
    cdef int resize(self, Py_ssize_t capacity) except -1
