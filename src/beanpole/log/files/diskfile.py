"""A file of the operating system, written and synced without Python's lock."""

import os

import cython
from cython.cimports.beanpole.log.files.syncer import fill, sync_fd, write_at
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.libc.stdint import int64_t


@cython.cclass
class DiskFile:
    """A file of the operating system. The fields stand in ``diskfile.pxd``."""

    def __cinit__(self, name: str, fd: cython.int):
        self.name = name
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def write(self, offset: int64_t, data: bytes | memoryview) -> None:
        view: Py_buffer
        failure: cython.int
        PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
        with cython.nogil:
            failure = write_at(self.fd, cython.cast(cython.p_char, view.buf), view.len, offset)
        PyBuffer_Release(cython.address(view))
        check(failure)

    def zero(self, start: int64_t, end: int64_t) -> None:
        failure: cython.int
        with cython.nogil:
            failure = fill(self.fd, start, end)
        check(failure)

    def sync(self) -> None:
        failure: cython.int
        with cython.nogil:
            failure = sync_fd(self.fd, False)
        check(failure)

    def close(self) -> None:
        os.close(self.fd)


def check(failure):
    """Raise OSError for an errno that is not 0."""
    if failure:
        raise OSError(failure, os.strerror(failure))
    return 0
