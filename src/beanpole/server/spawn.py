"""Starting a program from a thread, without a pause for the others.

``subprocess`` holds the interpreter's lock until the new program runs, and with it the turns: for 0.3 ms mostly, but
on a busy machine for as long as the new process waits for a processor, 8 ms in one of ten. Here the lock is free.
"""

import os

import cython
from cython.cimports.beanpole import posixspawn
from cython.cimports.libc.stdlib import free, malloc

FIRST_FD = 3
"""Where the descriptors that a program is given begin, behind standard error."""


def strings(of):
    """Return the array of C strings that exec wants. It borrows the bytes of the list."""
    found: cython.pp_char = cython.cast(cython.pp_char, malloc((len(of) + 1) * cython.sizeof(cython.p_char)))
    if found is not cython.NULL:
        for at in range(len(of)):
            found[at] = cython.cast(cython.p_char, cython.cast(bytes, of[at]))
        found[len(of)] = cython.NULL
    return found


def spawn(arguments: list[bytes], environment: list[bytes], descriptors: list[int]) -> int:
    """Start a program and return its id: the first argument is its path.

    It has these descriptors as 3, 4 and so on, our standard output and error, nothing to read, and no signal of our
    terminal. Each of the descriptors must stand behind all those numbers. Others are for those to keep who opened them:
    all that Python opens is.

    Raises:
        OSError: it can't be started.
    """
    pid: cython.int = 0
    refusal: cython.int
    actions: posixspawn.posix_spawn_file_actions_t
    attributes: posixspawn.posix_spawnattr_t
    path: bytes = arguments[0]
    c_path: cython.p_char = path
    assert min(descriptors, default=FIRST_FD) >= FIRST_FD + len(descriptors) or not descriptors
    c_arguments: cython.pp_char = strings(arguments)
    c_environment: cython.pp_char = strings(environment)
    posixspawn.posix_spawn_file_actions_init(cython.address(actions))
    posixspawn.posix_spawnattr_init(cython.address(attributes))
    try:
        if c_arguments is cython.NULL or c_environment is cython.NULL:
            raise MemoryError
        posixspawn.posix_spawnattr_setflags(cython.address(attributes), posixspawn.POSIX_SPAWN_SETPGROUP)
        refusal = posixspawn.posix_spawn_file_actions_addopen(cython.address(actions), 0, b"/dev/null", os.O_RDONLY, 0)
        for at in range(len(descriptors)):
            refusal = refusal or posixspawn.posix_spawn_file_actions_adddup2(
                cython.address(actions), descriptors[at], FIRST_FD + at
            )
        if not refusal:
            with cython.nogil:
                refusal = posixspawn.posix_spawn(
                    cython.address(pid),
                    c_path,
                    cython.address(actions),
                    cython.address(attributes),
                    c_arguments,
                    c_environment,
                )
    finally:
        posixspawn.posix_spawnattr_destroy(cython.address(attributes))
        posixspawn.posix_spawn_file_actions_destroy(cython.address(actions))
        free(c_arguments)
        free(c_environment)
    if refusal:
        raise OSError(refusal, os.strerror(refusal), os.fsdecode(path))
    return pid
