"""The digest of what a node holds, so that it can be compared with what the log says at the same row.

It covers the rules of tubes, schedules with their state, the pauses of groups, the tokens of puts, and every job with
all of its numbers, in the order of names and ids, as a log would hold them: a reserved job is ready. Which delayed jobs
have become ready, and which pauses and tokens have ended, depends on when a node last looked at its clock, so those
that are due count as it.

The digest is made in a copy of the process (fork), which the system makes in a few milliseconds however many jobs there
are: the node goes on while it is made, and the copy sees the jobs of one moment.
"""

import asyncio
import contextlib
import hashlib
import os
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass

from beanpole.engine.engine import Engine
from beanpole.engine.state.job import State
from beanpole.log.accounts import Accounts
from beanpole.log.compaction import write_all
from beanpole.log.encoder import Encoder
from beanpole.log.format import FRAME, SEGMENT_HEADER, Kind
from beanpole.log.postgres import schema
from beanpole.log.postgres.connection import connect, errors_translated
from beanpole.log.postgres.rows import Place

DIGEST_BYTES = 16
SEGMENT_BYTES = 2**40
"""More than there is memory: all jobs are written as one segment."""

SIZE = struct.Struct("<I")
KIND = FRAME
DEADLINE = FRAME + 1 + 16
STATE = FRAME + 1 + 64
"""Where a WHOLE record says what (docs/wal-format.md)."""

PAUSE_END = FRAME + 5  # and a GROUP, when its pause ends
TOKEN_END = FRAME + 17  # and a ONCE


def digest_of(engine: Engine, due_ns: int) -> bytes:
    """Return the digest of an engine's rules, schedules and jobs.

    Of the jobs, those that are due at a moment of the log's clock are ready.

    The jobs are no good afterwards: call it in a copy of the process.
    """
    records = Encoder(Accounts(SEGMENT_BYTES, unlimited=True), 1)
    records.open_segment(1, SEGMENT_BYTES, SEGMENT_HEADER, 1)
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def add() -> None:
        data, _, _ = records.take_row(SEGMENT_BYTES)
        at = 0
        while at < len(data):
            end = at + FRAME + SIZE.unpack_from(data, at)[0]
            if data[at + KIND] == Kind.WHOLE:
                state.update(settled(data[at:end], due_ns))
            elif data[at + KIND] == Kind.GROUP:
                if int.from_bytes(data[at + PAUSE_END : at + PAUSE_END + 8], "little") > due_ns:
                    state.update(data[at + FRAME : end])
            elif data[at + KIND] == Kind.ONCE:
                if int.from_bytes(data[at + TOKEN_END : at + TOKEN_END + 8], "little") > due_ns:
                    state.update(data[at + FRAME : end])
            elif data[at + KIND] in {Kind.RULES, Kind.SCHEDULE}:
                state.update(data[at + FRAME : end])
            at = end

    write_all(engine, records, add)
    return state.digest()


def settled(record: bytes, due_ns: int) -> bytes:
    """Return what is hashed of a job's record: all behind the frame, and ready if it was delayed and is due."""
    if record[STATE] == State.DELAYED and int.from_bytes(record[DEADLINE : DEADLINE + 8], "little") <= due_ns:
        numbers = record[FRAME:DEADLINE] + bytes(8) + record[DEADLINE + 8 : STATE]
        return numbers + bytes([State.READY]) + record[STATE + 1 :]
    return record[FRAME:]


class Copy:
    """A copy of this process as it was when this was made; it runs a function and ends."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self.reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            code = 1
            try:
                # A connection that the original closes would stay open here.
                os.closerange(3, writer)
                os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
                os.write(writer, work())
                code = 0
            finally:
                os._exit(code)
        os.close(writer)

    async def result(self) -> bytes:
        """Return what the function returned.

        Raises:
            OSError: the copy ended early.
        """
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        loop.add_reader(self.reader, done.set)
        try:
            await done.wait()
        finally:
            loop.remove_reader(self.reader)
        found = os.read(self.reader, DIGEST_BYTES)
        if len(found) != DIGEST_BYTES:
            raise OSError("the copy of the process that makes the digest ended early")
        return found

    def close(self) -> None:
        """End the copy, if it has not ended."""
        os.close(self.reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node held at a row."""

    node: str
    place: Place
    hash: bytes
    """Of that row."""

    due_ns: int
    """Delayed jobs that are due at this moment of the log's clock count as ready."""

    jobs: int
    digest: bytes


async def answer(conninfo: str, question: str, given: Answer) -> None:
    """Say what this node holds."""
    connection = await connect(conninfo, "answer")
    async with connection:
        with errors_translated():
            await connection.execute(schema.WAIT_FOR_NO_STANDBY.encode())
            values = [question, given.node, *given.place, given.hash, given.due_ns, given.jobs, given.digest]
            await connection.execute(schema.ANSWER.encode(), values)
