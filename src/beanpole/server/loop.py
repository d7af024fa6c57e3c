"""The loop of a server alone, or of a router: asyncio's own, which waits in the epoll that has the clients.

With a loop of its own a command takes two waits: the loop's, and that of the clients' epoll, which the loop watches.
Here it takes one. ``select()`` runs turns until asyncio has something to do: one of its descriptors is ready, a
callback waits, or it is time for one. Those descriptors are behind one that the clients' epoll watches.
"""

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TypeVarTuple

from beanpole.server.eventqueue import EventQueue

Ts = TypeVarTuple("Ts")
Ready = list[tuple[selectors.SelectorKey, int]]


class ClientsSelector(selectors.EpollSelector):
    """What asyncio waits with."""

    clients: EventQueue | None = None
    """Whose turns are run; None: nobody's yet, or no more."""

    fail: Callable[[Exception], None]
    """Called when a turn fails."""

    def select(self, timeout: float | None = None) -> Ready:
        """Run turns until there is something for asyncio to do."""
        if self.clients is None:
            return super().select(timeout)
        try:
            is_ready = self.clients.serve(-1 if timeout is None else timeout)
        except Exception as error:  # noqa: BLE001 - what happens in a turn is the loop's to report, as in a callback
            self.fail(error)
            return []
        return super().select(0) if is_ready else []


class ServerLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, with the turns of a server, or of a front, in it."""

    def __init__(self) -> None:
        self.waiting = ClientsSelector()
        self.waiting.fail = self.note_failure
        self.readers: dict[int, Callable[[], object]] = {}
        super().__init__(self.waiting)

    def serve(self, clients: EventQueue) -> None:
        """Run the turns of a server from now on."""
        for fd, call in self.readers.items():
            super().remove_reader(fd)
            clients.add_reader(fd, call)
        clients.serve_for(self.waiting.fileno())
        self.waiting.clients = clients

    def stop_serving(self) -> None:
        """Run none any more."""
        clients, self.waiting.clients = self.waiting.clients, None
        if clients is not None:
            clients.serve_for(-1)
            for fd, call in self.readers.items():
                clients.remove_reader(fd)
                super().add_reader(fd, call)

    def note_failure(self, error: Exception) -> None:
        self.call_exception_handler({"message": "Exception in a turn", "exception": error})

    def interrupt(self) -> None:
        """Let a turn that is under way be the last one before asyncio looks at what it has to do."""
        if self.waiting.clients is not None:
            self.waiting.clients.interrupted = True

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.interrupt()
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.interrupt()
        return super().call_at(when, callback, *args, context=context)

    def add_reader(self, fd: int, callback: Callable[..., object], *args: object) -> None:  # type: ignore[override]
        call = self.readers[fd] = partial(callback, *args)
        if self.waiting.clients is None:
            super().add_reader(fd, call)
        else:
            self.waiting.clients.add_reader(fd, call)

    def remove_reader(self, fd: int) -> bool:  # type: ignore[override]
        if self.readers.pop(fd, None) is None:
            return super().remove_reader(fd)  # of asyncio's own, which adds by another name
        if self.waiting.clients is None:
            return super().remove_reader(fd)
        self.waiting.clients.remove_reader(fd)
        return True
