"""The relay: puts the rows of an outbox as jobs, and deletes them when the server has said that they are there.

One batch is one transaction. What was put is deleted at its end; if the relay, the server or the database goes before,
all its rows stay, and are put again: the server knows their tokens, and says EXISTS. So each row becomes one job, as
long as no more than `TOKEN_S` pass between the two. A row that can never be a job is set aside with the reason; one
that the server does not take now stays, and those of other tubes and groups go on.
"""

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from beanpole.client import Address, Backoff, Client, Inserted, Login
from beanpole.client.pipeline import Pipeline
from beanpole.client.plan import Result
from beanpole.errors import (
    ArgumentError,
    BadFormatError,
    BuriedError,
    CommandError,
    DrainingError,
    ExitCode,
    JobTooBigError,
    StartError,
    UnsupportedError,
)
from beanpole.protocol import wire
from beanpole.protocol.limits import EXPIRE_S_MIN
from beanpole.relay.outbox import BODY_BYTES_MAX, Outbox, is_refusal, said

BATCH_ROWS = 500
BATCH_ROWS_FIRST = 16  # the size of the bodies is not known yet
BATCH_BYTES = 4_194_304  # bodies of a batch, after the first that is larger
POLL_S = 0.05  # how often an empty table is looked at
PAUSE_S = 1.0  # until what is away, or what the server did not take, is tried again
SHUT_MAX = 200  # tubes and groups that the server does not take now; beyond, all wait
TOKEN_S = 600  # how long the server remembers a put

NEEDED = ("put-job.once", "put-job.for")


class Relay:
    """Takes the rows of an outbox to a server, until it is told to stop.

    `log` is given a level, an event, and by name what it is about.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - as its docstring says
        self,
        outbox: Outbox,
        address: Address,
        log: Callable[..., None],
        sleep: Callable[[float], None],
        now_ns: Callable[[], int],
        login: Login | None = None,
    ) -> None:
        self.stops = False
        """Set, it ends before the next batch."""

        self.done = 0
        self._outbox = outbox
        self._log = log
        self._sleep = sleep
        self._now_ns = now_ns
        self._client = Client(address, None, backoff=Backoff(attempts=1), patience=0, login=login)
        self._batch_bytes = BATCH_BYTES
        self._count = BATCH_ROWS_FIRST
        self._shut: set[tuple[str, str]] = set()
        self._opens_at_ns = 0
        self._trouble = ""
        self._is_checked = False

    def run(self) -> None:
        """Take rows until `stops` is set.

        Raises StartError: the outbox can't be used, or the server lacks something.
        """
        with self._client:
            while not self.stops:
                try:
                    pause_s = self.step()
                except sa.exc.DBAPIError as error:
                    refused = is_refusal(error)
                    if refused and not self._is_checked:
                        raise StartError(said(error), ExitCode.NOT_FOUND) from error
                    self._report("the database refuses" if refused else "the database is away", said(error))
                    self._outbox.disconnect()
                    pause_s = PAUSE_S
                except CommandError as error:
                    self._report("the server is away", str(error))
                    pause_s = PAUSE_S
                if pause_s and not self.stops:
                    self._sleep(pause_s)

    def step(self) -> float:
        """Take a batch; return the seconds until the next one."""
        if not self._is_checked:
            self._outbox.claim()
            self._outbox.check()
            self._is_checked = True
        if NEEDED[0] not in self._client.features():
            text = f"the server at {self._client.address} does not know put-job with once=: use a newer one"
            raise StartError(text, ExitCode.NOT_FOUND)
        if self._now_ns() >= self._opens_at_ns:
            self._shut.clear()
        with self._outbox.transaction():
            rows = self._outbox.take(self._count, self._shut)
            done, aside = self._put(rows)
            self._outbox.finish(aside, done)
        self.done += len(done)
        for number, reason in aside.items():
            self._log("error", "a row was set aside", number=number, error=reason)
        is_full = len(rows) == self._count
        self._fit(rows)
        if len(self._shut) >= SHUT_MAX:
            return PAUSE_S
        if not self._shut:
            self._recover()
        return 0 if is_full else POLL_S

    def _put(self, rows: Sequence[Any]) -> tuple[list[int], dict[int, str]]:
        """Put rows; return the numbers of those that are jobs now, and of those that can't be any, with the reason.

        Raises CommandError: nobody knows of some, or the server takes no jobs at all.
        """
        sent: list[tuple[Any, Result[Inserted]]] = []
        done: list[int] = []
        aside: dict[int, str] = {}
        pipeline = self._client.pipeline(raise_errors=False)
        for row in rows:
            try:
                sent.append((row, put(pipeline, row)))
            except ArgumentError as error:
                aside[row.number] = str(error)
            except TypeError as error:  # SQLite's columns hold anything
                aside[row.number] = f"a column has a value of another type than its own: {error}"
        pipeline.flush()
        for row, result in sent:
            wrong = result.error
            if wrong is None or isinstance(wrong, BuriedError):
                done.append(row.number)
            elif isinstance(wrong, DrainingError) or (isinstance(wrong, UnsupportedError) and wrong.feature in NEEDED):
                raise wrong
            elif isinstance(wrong, BadFormatError | JobTooBigError | UnsupportedError):
                aside[row.number] = str(wrong)
            else:
                self._shut.add((row.tube, row.job_group or ""))
                self._opens_at_ns = self._now_ns() + int(PAUSE_S * 1e9)
                self._report("the server does not take a job now", str(wrong), tube=row.tube)
        return done, aside

    def _fit(self, rows: Sequence[Any]) -> None:
        """Let the next batch be as large as it may be, if its bodies are like those of this one."""
        if rows:
            size = sum(len(each.body) for each in rows if isinstance(each.body, str | bytes))
            fitting = self._batch_bytes * len(rows) // max(size, 1)
            self._count = max(min(BATCH_ROWS, self._count * 2, fitting), 1)

    def _report(self, event: str, error: str, **about: object) -> None:
        """Log what keeps rows from going on, once until they do."""
        if event != self._trouble:
            self._log("warning", event, error=error, **about)
        self._trouble = event

    def _recover(self) -> None:
        if self._trouble:
            self._log("info", "it goes on")
        self._trouble = ""


def put(pipeline: Pipeline[bytes], row: "sa.Row[Any]") -> Result[Inserted]:
    """Put a row as a job. Raises ArgumentError or TypeError: it can't be one."""
    if row.body is None:
        raise ArgumentError(f"a body is larger than a relay reads: {BODY_BYTES_MAX} bytes")
    # In SQLite a value may be of any type, and text in any encoding.
    body = row.body.encode(errors="surrogateescape") if isinstance(row.body, str) else row.body
    if row.at is not None and row.delay:
        raise ArgumentError("only one of delay and at can be given")
    wait_s = (row.put_at + row.delay if row.at is None else row.at) - row.now
    expire = row.expire or None
    if expire is not None and expire > 0:
        expire = max(expire + min(wait_s, 0), EXPIRE_S_MIN)
    wire.tube_name(row.tube)  # an empty one would mean the tube that is in use
    return pipeline.put_job(
        body,
        row.pri,
        max(wait_s, 0),
        row.ttr,
        tube=row.tube,
        key=row.job_key,
        group=row.job_group,
        expire=expire,
        once=row.token,
        once_for=TOKEN_S,
    )
