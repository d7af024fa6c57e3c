"""Putting a job with the options that beanstalkd does not know. No I/O."""

import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal, TypedDict, TypeVar, Unpack

from beanpole.client import fallback
from beanpole.client.extensions import (
    choice,
    key_bytes,
    line,
    meta_bytes,
    optional,
    seconds,
    size_of,
    unix_seconds,
    whole,
    with_body,
)
from beanpole.client.plan import Plan, run_call
from beanpole.client.session import USED, Session
from beanpole.errors import ArgumentError
from beanpole.limits import PRI_MAX
from beanpole.protocol import limits, wire
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call, Reply

B = TypeVar("B")
T = TypeVar("T")

Taken = Literal["keep", "replace"]
"""What happens when a job has the key already: the new one is not put, or it takes the place of the other."""

Until = Literal["delete", "reserve"]
"""When a key is free again."""


class PutOptions(TypedDict, total=False):
    """What a put can be given that beanstalkd does not know. None: nothing."""

    key: str | None
    taken: Taken | None
    until: Until | None
    expire: float | None
    at: datetime | float | None
    within: float | None
    group: str | None
    meta: Mapping[str, str] | None
    once: str | None
    once_for: int | None
    retry: bool


@dataclass(frozen=True, slots=True)
class Inserted:
    """What became of a put."""

    id: int
    """The job that is there now."""

    outcome: Literal["inserted", "exists", "replaced"]
    """``exists``: another job has the key, or a put with this token was done, and nothing was changed; ``replaced``: it
    has the new body and options."""


OUTCOMES: dict[int, Literal["inserted", "exists", "replaced"]] = {
    Word.INSERTED: "inserted",
    Word.EXISTS: "exists",
    Word.REPLACED: "replaced",
}


def inserted(reply: Reply) -> Inserted:
    return Inserted(reply.number, OUTCOMES[reply.word])


def plain_put(data: bytes, priority: int, ttr: int, delay: int) -> bytes:
    return wire.put(data, priority, delay, ttr)


def put_call(
    session: Session[B],
    body: B,
    numbers: tuple[int, float, int],
    tube: str,
    take: Callable[[Reply], T],
    **options: Unpack[PutOptions],
) -> "Call[T]":
    """A put with what else it can be given, and with what the session lets jobs carry where the server has headers."""
    data = session.codec.encode(body)
    call = call_of(session, data, numbers, tube, take, None, **options)
    carried = session.carried() if session.carried is not None else {}
    if not carried:
        return call
    meta = with_room(options.get("meta") or {}, carried)
    without = partial(run_call, session, call)
    return call_of(session, data, numbers, tube, take, without, **(options | PutOptions(meta=meta)))


def with_room(meta: Mapping[str, str], carried: Mapping[str, str]) -> Mapping[str, str]:
    """Headers and what is to be carried besides, as far as there is room: a put does not fail because of that."""
    for name, value in carried.items():
        with contextlib.suppress(ArgumentError):
            more = {name: value, **meta}
            meta_bytes(more)
            meta = more
    return meta


def call_of(
    session: Session[B],
    data: bytes,
    numbers: tuple[int, float, int],
    tube: str,
    take: Callable[[Reply], T],
    instead: Callable[[], Plan[T]] | None,
    *,
    key: str | None = None,
    taken: Taken | None = None,
    until: Until | None = None,
    expire: float | None = None,
    at: datetime | float | None = None,
    within: float | None = None,
    group: str | None = None,
    meta: Mapping[str, str] | None = None,
    once: str | None = None,
    once_for: int | None = None,
    retry: bool = False,
) -> "Call[T]":
    """A ``put-job``; on a server without it a ``put``, if that can say all that is asked for.

    `numbers` are priority, delay and TTR; `instead` is what is done on a server that lacks something of it, if that is
    known already.
    """
    priority, delay, ttr = numbers
    once = secrets.token_hex(16) if retry and once is None else once
    if once_for is not None and (once is None or once_for == 0):
        raise ArgumentError("once_for is for how many seconds once counts, from 1 on")
    made = line(
        b"put-job",
        size_of(data),
        tube=wire.tube_name(tube) if tube else None,
        pri=whole(priority, PRI_MAX, "priority"),
        delay=seconds(delay, "delay") if at is None else None,
        at=optional(at, unix_seconds, "at"),
        ttr=whole(ttr, PRI_MAX, "ttr"),
        key=optional(key, key_bytes),
        taken=optional(taken, choice, ("keep", "replace"), "taken"),
        within=optional(within, seconds, "within"),
        until=optional(until, choice, ("delete", "reserve"), "until"),
        expire=optional(expire, seconds, "expire"),
        group=optional(group, key_bytes, "a group"),
        meta=optional(meta or None, meta_bytes),
        once=optional(once, key_bytes, "a token", limits.ONCE_BYTES_MAX),
        **{"for": optional(once_for, whole, limits.ONCE_S_MAX, "once_for")},
    )
    if key is None and (taken is not None or until is not None):
        raise ArgumentError("taken and until are about a key, and there is none")
    if at is not None and delay:
        raise ArgumentError("a job has a delay, or a moment at which it is ready, not both")
    if within is not None and taken != "replace":
        raise ArgumentError("within is for a put that replaces what is there: taken='replace'")
    if instead is None and key is None and expire is None and group is None and once is None and not meta:
        if at is not None:
            at_s = float(unix_seconds(at, "at"))
            instead = partial(fallback.put_at, session, partial(plain_put, data, priority, ttr), at_s, tube, take)
        elif not delay % 1:
            plain = wire.put(data, priority, int(delay), ttr)
            instead = partial(fallback.put, session, plain, tube, take)
    sent, needs = with_body(made, data)
    return Call(
        sent,
        Word.INSERTED,
        take,
        tube=None if tube else USED,
        needs=needs,
        also=(Word.EXISTS, Word.REPLACED),
        instead=instead,
    )
