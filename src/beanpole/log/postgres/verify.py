"""``beanpole cluster verify``: whether the log is what was written, and whether the nodes hold what it says.

A question is a line in the table of nodes, which every node reads once a second. Each answers with the digest of its
jobs at a row that it names (:mod:`beanpole.log.postgres.digest`); the log is read as a node does that starts, and at
those rows the digests must be the same.
"""

import asyncio
import contextlib
import functools
import secrets
from dataclasses import dataclass

from beanpole.engine.check import check
from beanpole.log import limits
from beanpole.log.postgres import schema
from beanpole.log.postgres.digest import Answer, Copy, digest_of
from beanpole.log.postgres.hosts import OperatorStore, opened
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import NOWHERE, Place, Row, new_writer
from beanpole.log.postgres.store import QUESTION, NodeState
from beanpole.log.postgres.transfer import Progress, read_log


async def ask_nodes(store: OperatorStore, nodes: list[str], timeout_s: float) -> list[Answer]:
    """Ask nodes what they hold; return the answers that came in time."""
    question = f"{QUESTION} {secrets.token_hex(8)}"
    asking = NodeState(question, "", QUESTION, 0, NOWHERE, "", 0, "", reaches_leader=True, writer=new_writer())
    answers: list[Answer] = []
    try:
        await store.execute(schema.WAIT_FOR_NO_STANDBY)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await store.report(asking)
                while not {each.node for each in answers}.issuperset(nodes):
                    await asyncio.sleep(limits.REPORT_S / 10)
                    await store.report(asking)  # it counts as gone when it is old
                    answers = [
                        Answer(node, Place(segment, row), *rest)
                        for node, segment, row, *rest in await store.fetch(schema.ANSWERS, [question])
                    ]
    finally:
        await store.execute(schema.FORGET_NODE, [question])
        await store.execute(schema.FORGET_QUESTION, [question])
    return answers


@dataclass(frozen=True, slots=True)
class Verified:
    """What a whole log was found to hold, and what the nodes hold."""

    rows: int
    jobs: int
    tip: Row
    equal: dict[str, bool]
    """By node, whether it holds what the log says at the row that it named."""

    silent: list[str]
    """Nodes that are alive and did not answer."""


async def verify(conninfo: str, timeout_s: float, progress: Progress) -> Verified:
    """Ask the nodes for digests, then read the whole log as a node does that starts, and compare.

    Raises:
        ChangedError: something in the log is not what was written.
        GoneError: its oldest segment was dropped while it was read, so the log must be read again.
    """
    async with opened(conninfo) as store:
        alive = [each.name for each in await store.nodes() if each.is_alive]
        answers = await ask_nodes(store, alive, timeout_s)
        copies: dict[str, Copy] = {}
        equal: dict[str, bool] = {}

        def compare(replica: Replica) -> None:
            for each in answers:
                if each.place == replica.applied.place:
                    equal[each.node] = each.hash == replica.applied.hash and each.jobs == replica.engine.jobs.count
                    if equal[each.node]:
                        copies[each.node] = Copy(functools.partial(digest_of, replica.engine, each.due_ns))

        try:
            furthest = max((each.place for each in answers), default=NOWHERE)
            replica = await read_log(store, progress, compare, furthest)
            for each in answers:
                if each.node in copies:
                    equal[each.node] = await copies[each.node].result() == each.digest
        finally:
            for copy in copies.values():
                copy.close()
        await asyncio.to_thread(check, replica.engine)
        silent = [each for each in alive if each not in equal]
        rows = replica.row_count + len(replica.unapplied)
        return Verified(rows, replica.engine.jobs.count, replica.tip, equal, silent)
