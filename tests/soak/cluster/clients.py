"""Clients that put, look at and delete jobs through any node, and remember what they were told."""

import random
import socket
import threading
import time
from dataclasses import dataclass, field

from tests.soak.cluster.nodes import NodeProcess
from tests.soak.cluster.timers import Fires

PATIENCE_S = 30.0
CONNECT_S = 2.0
EPOCH = b"\ncluster-epoch: "


@dataclass
class History:
    """What all clients were told."""

    puts: dict[int, bytes] = field(default_factory=dict)
    deleted: dict[int, float] = field(default_factory=dict)
    """When a delete was answered."""

    unanswered: set[int] = field(default_factory=set)
    """Jobs whose delete was sent and not answered."""

    wrong: list[str] = field(default_factory=list)
    epochs: list[tuple[float, float, int]] = field(default_factory=list)
    """When stats was sent and answered, and by the leader of which epoch."""

    answered_s: list[float] = field(default_factory=list)
    """When a put was answered."""

    fires: Fires = field(default_factory=Fires)
    """The jobs of schedules that were seen."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    def accept_loss(self, connection: socket.socket) -> None:
        """Take what is there as all that there is; ids of jobs that are gone must still not be given again."""
        for id, body in self.puts.items():
            reply = Client.ask(connection, b"peek %d\r\n" % id)
            if reply.startswith(b"FOUND") and reply.split(b"\r\n")[1] == body:
                self.deleted.pop(id, None)
            else:
                self.deleted.setdefault(id, time.monotonic())
        self.unanswered.clear()
        self.epochs.clear()
        self.fires.begin_again()

    def begin_again(self) -> None:
        """Forget what was told by another cluster."""
        for each in (self.puts, self.deleted, self.unanswered, self.epochs):
            each.clear()
        self.fires.begin_again()


class Client(threading.Thread):
    """One client."""

    def __init__(self, nodes: list[NodeProcess], history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self.nodes = nodes
        self.history = history
        self.rng = random.Random(seed)
        self.number = seed
        self.count = 0
        self.ids: list[int] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        """Work until stopped, on one node after the other."""
        while not self.stopping.is_set():
            node = self.rng.choice(self.nodes)
            try:
                with node.connect(CONNECT_S) as connection:
                    while not self.stopping.is_set():
                        self.work(connection)
            except OSError:
                self.stopping.wait(0.02)

    def work(self, connection: socket.socket) -> None:
        """Send one command, and note what it is answered. Raises OSError: it is not."""
        rng, pick, history = self.rng, self.rng.random(), self.history
        if pick < 0.1:
            sent_s = time.monotonic()
            reply = self.ask(connection, b"stats\r\n")
            epoch = int(reply.split(EPOCH)[1].split(b"\n")[0])
            with history.lock:
                history.epochs.append((sent_s, time.monotonic(), epoch))
        elif pick < 0.5 or not self.ids:
            self.count += 1
            body = b"%d-%d" % (self.number, self.count)
            reply = self.ask(connection, b"put 1 0 600 %d\r\n%b\r\n" % (len(body), body))
            id = int(reply.removeprefix(b"INSERTED "))
            with history.lock:
                if id in history.puts:
                    history.wrong.append(f"job {id} was given twice")
                history.puts[id] = body
                history.answered_s.append(time.monotonic())
            self.ids.append(id)
        elif pick < 0.6:
            id, sent_s = rng.choice(self.ids), time.monotonic()
            reply = self.ask(connection, b"peek %d\r\n" % id)
            with history.lock:
                if reply.startswith(b"FOUND") and history.deleted.get(id, sent_s) < sent_s:
                    history.wrong.append(f"job {id} was seen after its delete")
                if reply.startswith(b"NOT_FOUND") and id not in history.deleted and id not in history.unanswered:
                    history.wrong.append(f"job {id} was not there")
        else:
            id = self.ids.pop(rng.randrange(len(self.ids)))
            with history.lock:
                history.unanswered.add(id)
            reply = self.ask(connection, b"delete %d\r\n" % id)
            with history.lock:
                history.unanswered.discard(id)
                if reply != b"DELETED\r\n":
                    history.wrong.append(f"delete {id} was answered with {reply!r}")
                history.deleted[id] = time.monotonic()

    @staticmethod
    def ask(connection: socket.socket, command: bytes) -> bytes:
        """Send a command and return its reply."""
        connection.settimeout(PATIENCE_S)
        connection.sendall(command)
        received = b""
        while b"\r\n" not in received:
            received += take(connection)
        line = received.partition(b"\r\n")[0].split()
        size = received.index(b"\r\n") + 2
        if line[0] in {b"OK", b"FOUND"}:
            size += int(line[-1]) + 2
        while len(received) < size:
            received += take(connection)
        return received


def take(connection: socket.socket) -> bytes:
    """Return some bytes. Raises OSError: there are none any more."""
    piece = connection.recv(65536)
    if not piece:
        raise ConnectionResetError
    return piece


@dataclass
class Verdict:
    """What must be nothing, each."""

    lost: list[int]
    back: list[int]
    two_leaders: list[str]
    wrong: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether everything that clients were told is true."""
        return not (self.lost or self.back or self.two_leaders or self.wrong)


def judge(history: History, connection: socket.socket) -> Verdict:
    """Compare what clients were told with what the leader has."""
    lost, back = [], []
    for id, body in sorted(history.puts.items()):
        if id in history.unanswered:
            continue
        reply = Client.ask(connection, b"peek %d\r\n" % id)
        is_there = reply.startswith(b"FOUND") and reply.split(b"\r\n")[1] == body
        if id in history.deleted and is_there:
            back.append(id)
        elif id not in history.deleted and not is_there:
            lost.append(id)
    two = []
    answered = sorted((answered_s, epoch) for _, answered_s, epoch in history.epochs)
    newest, at = 0, 0
    for sent_s, _, epoch in sorted(history.epochs):
        while at < len(answered) and answered[at][0] < sent_s:
            newest = max(newest, answered[at][1])
            at += 1
        if epoch < newest:
            two.append(f"epoch {epoch} answered what was sent when {newest} had answered")
    return Verdict(lost, back, two, history.wrong)
