"""What the blocking client asks of the kernel for each command: is the connection alive, send, receive.

Nothing else: what is unusual (a signal, a full buffer, a reply in pieces, silence) is left to Python, which does all of
it in :mod:`~beanpole.client.sync`.
"""

import cython
from cython.cimports.beanpole.protocol.wire import Reply, ReplyReader
from cython.cimports.cpython.exc import PyErr_CheckSignals, PyErr_SetFromErrno
from cython.cimports.libc.errno import EAGAIN, EINTR, errno

WHOLE = -1
"""All replies came."""

LATE = -2
"""All was sent, and nothing came within the time that the socket has."""


def is_over(fd: cython.int) -> bool:
    """Whether the other side has closed a connection, or has sent something without being asked."""
    byte: cython.char
    came: cython.Py_ssize_t = recv(fd, cython.address(byte), 1, MSG_PEEK | MSG_DONTWAIT)
    return came >= 0 or (errno != EAGAIN and errno != EINTR)


def round_trip(fd: cython.int, data: bytes, count: cython.Py_ssize_t, reader: ReplyReader, replies: list[Reply]) -> int:
    """Send commands, receive once, and append the replies that are whole.

    Raise OSError, what the reader does, and what the handler of a signal does.

    Return WHOLE or LATE, or else how many bytes were sent: then the caller goes on with the rest, and with receiving.
    """
    at: cython.p_const_char = data
    size: cython.Py_ssize_t = len(data)
    sent: cython.Py_ssize_t
    came: cython.Py_ssize_t
    buffer: cython.char[16384]
    with cython.nogil:
        sent = send(fd, at, size, MSG_NOSIGNAL)
    if sent < 0:
        if errno == EINTR:
            return 0
        PyErr_SetFromErrno(OSError)
    if sent < size:
        return sent
    PyErr_CheckSignals()  # one that came while others had the interpreter would wake nobody in recv()
    with cython.nogil:
        came = recv(fd, cython.address(buffer[0]), 16384, 0)
    if came < 0:
        if errno == EAGAIN:
            return LATE
        if errno != EINTR:
            PyErr_SetFromErrno(OSError)
    if came <= 0:
        return sent
    reader.append(cython.address(buffer[0]), came)
    return WHOLE if reader.read_into(replies, count) else sent
