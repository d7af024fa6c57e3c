"""Servers on one simulated disk, one after the other, and clients that send them bytes."""

from beanpole.log.log import Policy
from tests.simulation.disk import SimDisk
from tests.simulation.life import Life, Promises
from tests.simulation.runner import Clock


class Server:
    """A disk and the processes on it."""

    def __init__(
        self, seed: int = 0, *, segment_bytes: int = 4096, clients: int = 2, files: dict[str, bytes] | None = None
    ) -> None:
        self.disk = SimDisk(seed)
        for name, content in (files or {}).items():
            self.disk.put_file(name, content)
        self.clock = Clock()
        self.segment_bytes = segment_bytes
        self.client_count = clients
        self.start()

    def start(self) -> None:
        """A process begins, and clients connect."""
        self.life = Life(self.disk, self.clock, Policy(0), self.segment_bytes, Promises())
        self.life.log.on_durable = lambda: None
        self.clients = [self.life.connect() for _ in range(self.client_count)]
        self.client = self.clients[0]

    def restart(self) -> None:
        """The process is killed when nothing is under way, and another begins."""
        self.life.runner.settle()
        self.disk.kill()
        self.start()

    def say(self, *commands: bytes, client: int = 0) -> None:
        """Commands of one turn, without anything that the log does by itself."""
        connection = self.clients[client].connection
        self.life.guard(lambda: connection.receive(self.life.now_ns, b"".join(commands)))
        self.life.guard(self.life.log.append)
        while connection.pending and not self.life.failed:  # a put that waits for space
            self.life.guard(lambda: connection.resume(self.life.now_ns))
            self.life.guard(self.life.log.append)

    def ask(self, *lines: bytes, client: int = 0) -> bytes:
        """Commands of one turn, by lines, and what the log does; returns the replies."""
        self.say(*(line + b"\r\n" for line in lines), client=client)
        self.life.runner.settle()
        return self.clients[client].connection.take_output(self.life.log.durable_index)

    def ids(self) -> list[int]:
        return sorted(job.id for job in self.life.engine.jobs.jobs())
