"""A node of a cluster as a role source: its clients are served here while it leads, and passed to the leader while not.

A node is ready when it answers clients, in either role. What it does about the log stands in
:mod:`beanpole.log.postgres.node`, how it serves clients in :mod:`beanpole.server.clusterroles`.
"""

import asyncio
import contextlib
import functools
import ipaddress
import os
import socket
from typing import TYPE_CHECKING

from beanpole import limits
from beanpole.address import TLS_SCHEME
from beanpole.engine.engine import Engine
from beanpole.errors import BeanpoleError, ExitCode, StartError
from beanpole.log import limits as log_limits
from beanpole.log.log import Log
from beanpole.log.postgres import admin, schema
from beanpole.log.postgres.clock import MachineClock
from beanpole.log.postgres.digest import Answer, Copy, answer, digest_of
from beanpole.log.postgres.leader import facts_of_place
from beanpole.log.postgres.node import Node
from beanpole.log.postgres.pgstore import opener
from beanpole.log.postgres.store import QUESTION, ChangedError, LossError
from beanpole.schedules.zones import data_version
from beanpole.server.clusterlogs import ClusterObserver
from beanpole.server.clusterroles import Passing, Roles
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.host import Host
from beanpole.server.turn import Turn

if TYPE_CHECKING:
    from beanpole.log.postgres.leader import Leading
    from beanpole.log.postgres.rows import Row

CONSOLE_WAIT_S = 5.0  # seconds after which the console of a node is started that answers no clients yet
STOP_S = 2.0  # seconds that a node which stops waits for its last rows to be confirmed, and for its successor
CLUSTER_WATCH_S = 0.25  # seconds between two looks whether a node can serve its clients


class ClusterNode:
    """A node: its cluster's log says whether it leads."""

    def __init__(self, host: Host, passing: Passing) -> None:
        self.host = host
        self.settings = settings = host.settings
        assert settings.cluster is not None
        self.logger = host.logger
        self.loop = asyncio.get_running_loop()
        self.observer = ClusterObserver(self.logger)
        self.roles = Roles(host, self.observer, self.serve_console, passing)
        self.answered = ""
        self.has_users = host.door is not None and host.door.files is not None
        self.told: dict[str, str] = {}  # what was said of this node
        self.telling: asyncio.Task[None] | None = None
        self.node = Node(
            opener(settings.cluster, settings.node, has_users=self.has_users),
            note={
                "node": settings.node,
                "address": self.advertised(),
                "machine": os.uname().nodename,
                "zones": data_version(),
            },
            clock=MachineClock(),
            observer=self.observer,
            roles=self.roles,
            make_engine=self.roles.make_engine,
        )

    def start(self) -> None:
        """Begin to follow."""
        if self.host.console is not None:
            self.idle = self.open_idle()
            self.serve_console(None)
            # A node that finds no leader, or not even its log, is what a console must show.
            self.loop.call_later(CONSOLE_WAIT_S, self.host.console.start)
        self.running = self.loop.create_task(self.node.run())
        self.running.add_done_callback(self.node_ended)
        self.watching = self.loop.create_task(self.watch())

    def drain(self) -> None:
        """Refuse to drain: the next leader would take jobs all the same."""
        self.logger.warning(
            "not draining", reason="SIGUSR1", advice="`beanpole cluster step-down` lets another node lead"
        )

    def stop_turns(self) -> None:
        self.roles.stop_turns()

    async def stop(self) -> None:
        """Hand over if this node leads, or at least let what it has recorded be confirmed; then stop the node."""
        self.watching.cancel()
        self.roles.stop()
        leading = self.node.leading
        if leading is not None and self.host.exit_code == ExitCode.OK:
            if not self.node.hand_over():
                self.logger.warning("no other node is there to lead", effect="clients wait until one is started")
                self.roles.pause()
                leading.hand_over("")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    while self.node.leading is leading and not self.running.done():  # noqa: ASYNC110 - once, at the end
                        await asyncio.sleep(0.002)
        self.running.cancel()
        await asyncio.wait([self.running])
        assert self.settings.cluster is not None
        error = None if self.running.cancelled() else self.running.exception()
        loss = str(error) if isinstance(error, LossError) else ""
        if not self.node.has_reported and not loss:
            return
        try:
            async with asyncio.timeout(log_limits.HALT_S):
                await admin.note_stop(self.settings.cluster, self.node.writer, loss, self.node.era, self.node.cluster)
        except (BeanpoleError, OSError) as error:
            self.logger.warning("the stop was not reported to PostgreSQL", reason=str(error) or "no answer")

    def advertised(self) -> str:
        """Return the address at which clients and other nodes reach this one."""
        door = self.host.door
        tcp = [each for each in self.host.listeners if each.family != socket.AF_UNIX]
        scheme = ""
        if door is not None and door.entrance.contexts:
            pairs = zip(door.entrance.places, self.host.listeners, strict=True)
            tcp = [each for place, each in pairs if place.is_for_nodes]
            scheme = TLS_SCHEME
        if self.settings.advertise:
            return scheme + self.settings.advertise
        if len(tcp) == 1:
            host, port = tcp[0].getsockname()[:2]
            if not ipaddress.ip_address(host).is_unspecified:
                return scheme + (f"[{host}]:{port}" if tcp[0].family == socket.AF_INET6 else f"{host}:{port}")
        raise StartError(
            "the other nodes can't know where this one is reached: give --advertise HOST:PORT", ExitCode.USAGE
        )

    def open_idle(self) -> EpollTransport:
        """Return what answers the console while this node does not lead: an engine that never has a job.

        The node's clients are passed on to the leader, but the console asks about this very node. Counts of jobs mean
        nothing, and a put is refused with DRAINING.
        """
        log = Log()
        engine = Engine(limits.BODY_BYTES_MAX_DEFAULT, now_ns(), self.idle_facts, log.records)
        engine.draining = True
        transport = EpollTransport(Turn(engine, log), self.loop, self.host.observer)
        self.loop.add_reader(transport.fileno(), transport.run)
        return transport

    def idle_facts(self) -> dict[str, str]:
        """Return what this node says of itself while it does not lead: what it is, and how far it has come."""
        state, following = self.node.state(), self.node.following
        unapplied = following.replica.unapplied if following is not None and following.replica is not None else ()
        heard_ns = following.heard_ns if following is not None else 0
        return {
            **self.host.facts(),
            "cluster-role": state.role,
            "cluster-epoch": str(state.epoch),
            "cluster-lag": str(sum(len(row.data) for row, _, _ in unapplied)),
            **facts_of_place(following.unreadable if following is not None else None),
            "cluster-silence": f"{(self.node.clock.now_ns() - heard_ns) / 1e9:.3f}" if heard_ns else "0.000",
            "cluster-leader": self.roles.leader if self.roles.reaches_leader else "",
            **self.roles.says_away(),
            "draining": "false",
        }

    def serve_console(self, clients: EpollTransport | None) -> None:
        """Serve the console as clients are served here, or, while this node does not lead, with what it is."""
        if self.host.console is not None:
            self.host.console.serve_by(self.idle if clients is None else clients)

    async def watch(self) -> None:
        """Send clients away when nothing is confirmed, or no leader is known, for too long; take them again after."""
        sent_away: Leading | None = None
        known_ns = now_ns()
        while True:
            await asyncio.sleep(CLUSTER_WATCH_S)
            self.look_for_question()
            self.tell()
            leading = self.node.leading
            if leading is None or leading is not sent_away:
                sent_away = None
            if leading is not None or self.roles.uplink is not None:
                known_ns = now_ns()
            elif now_ns() - known_ns > self.settings.cluster_wait_s * 1e9 and self.roles.holds_clients:
                self.roles.send_away()
                self.observer.clients_sent_away("no leader is known", (now_ns() - known_ns) / 1e9)
            if leading is None:
                continue
            waits_s = leading.unconfirmed_s()
            if waits_s > self.settings.cluster_wait_s and sent_away is None:
                sent_away = leading
                self.roles.send_away()
                self.observer.clients_sent_away("nothing is confirmed", waits_s)
            elif sent_away is not None and waits_s < self.settings.cluster_wait_s:
                sent_away = None
                self.logger.info("clients taken again")
                self.roles.accept()

    def tell(self) -> None:
        """Let `beanpole cluster status` know which users this node knows, and why it does not reach the leader."""
        assert self.settings.cluster is not None
        digest = self.host.door.access.digest if self.has_users and self.host.door is not None else ""
        says = {schema.USERS: digest, schema.UNREACHED: "" if self.roles.reaches_leader else self.roles.unreached_why}
        if says == self.told or not self.node.has_reported or (self.telling and not self.telling.done()):
            return
        self.told = says
        self.telling = self.loop.create_task(self.say(self.settings.cluster, says))

    async def say(self, url: str, says: dict[str, str]) -> None:
        try:
            await admin.note_said(url, self.settings.node, says)
        except (BeanpoleError, OSError):
            self.told = {}  # it is said again

    def look_for_question(self) -> None:
        """Answer `beanpole cluster verify`: a leader at its next row, a follower at the last one that it applied."""
        question = next((each.name for each in self.node.nodes if each.role == QUESTION), "")
        leading, following = self.node.leading, self.node.following
        if not question or question == self.answered:
            return
        if leading is not None:
            self.answered = question
            leading.on_row = functools.partial(self.answer_as_leader, leading, question)
        elif following is not None and following.replica is not None:
            self.answered = question
            replica = following.replica
            assert replica.replay.restore is not None
            self.answer(question, replica.engine, replica.applied, replica.replay.restore.clock_ns)

    def answer_as_leader(self, leading: "Leading", question: str, row: "Row") -> None:
        """Answer at a row: now the engine holds what the log holds with it."""
        leading.on_row = None
        self.answer(question, leading.replica.engine, row, leading.records.clock[0])

    def answer(self, question: str, engine: "Engine", row: "Row", due_ns: int) -> None:
        """Make a digest of what the engine holds, and say it."""
        assert self.settings.cluster is not None
        jobs = engine.jobs.count
        try:
            copy = Copy(functools.partial(digest_of, engine, due_ns))
        except OSError as error:
            self.logger.warning("no digest for `beanpole cluster verify`", reason=str(error))
            return
        url, node = self.settings.cluster, self.settings.node

        async def send() -> None:
            try:
                found = await copy.result()
                await answer(url, question, Answer(node, row.place, row.hash, due_ns, jobs, found))
            except (BeanpoleError, OSError) as error:
                self.logger.warning("no digest for `beanpole cluster verify`", reason=str(error))
            finally:
                copy.close()

        self.sending = asyncio.get_running_loop().create_task(send())

    def node_ended(self, task: asyncio.Task[None]) -> None:
        """Stop when the node may not go on."""
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        self.host.exit_code = ExitCode.LOG_CHANGED if isinstance(error, ChangedError) else ExitCode.FAILED
        self.roles.stop()
        self.host.stopping.set()
        known = isinstance(error, BeanpoleError)
        self.logger.critical(
            "cluster failed",
            reason=str(error),
            **({"advice": error.advice} if isinstance(error, ChangedError) else {}),
            exc_info=None if known else error,
        )
