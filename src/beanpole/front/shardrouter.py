"""A router of several shards, by a map (docs/shards.md): ``beanpole route --map`` starts it.

The clients' sockets are those of a front, as of a router of one server. Its link ends in this process, in a
:class:`~beanpole.front.switch.Switch`, which has a link to each shard. This module has their sockets, the map's file,
and the clock.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from beanpole import limits
from beanpole.address import SCHEME
from beanpole.errors import MapError
from beanpole.front.gather import text_of
from beanpole.front.merging import read
from beanpole.front.router import FAILURE_REPORT_NS, Metric, Router
from beanpole.front.switch import PING, ShardLink, Switch
from beanpole.front.uplink import Uplink
from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.link import FrameReader, frame
from beanpole.server.eventqueue import now_ns
from beanpole.shards.file import MapFile
from beanpole.shards.map import Places, Shard, ShardMap

LOOK_S = 1.0  # from one look at the map's file, and at links on which nothing comes, to the next
DEAD_TUBES_NS = 10_000_000_000  # from one question for the tubes that rules name as ``dead:`` to the next
READ_BYTES = 65_536  # of a link at once: a reader has room for that behind any frame that has not all come
ANSWER = b"\1"
QUOTED = {"hostname", "os", "platform", "beanpole-version"}  # facts of a process that stand in quotes


class LinkSocket:
    """The socket of a link: read once when it is readable; what is to be sent leaves by `flush`."""

    def __init__(
        self,
        link: socket.socket,
        reader: FrameReader,
        out: bytearray,
        take: Callable[[int, int, bytes], str | None],
        end: Callable[[str], object],
    ) -> None:
        """`take` is given each frame, and says why the link has to end, if so; `end` is called when it has."""
        self.link = link
        self.reader = reader
        self.out = out
        self.take = take
        self.end = end
        self.blocked = False
        self.silence_count = 0  # how often in a row nothing had come when `check_silence` was called
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(link.fileno(), self.receive)

    def receive(self) -> None:
        """Take what has come."""
        try:
            data = self.link.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.end(error.strerror or "ended")
            return
        if not data:
            self.end("ended")
            return
        self.silence_count = 0
        self.reader.receive(data)
        self.take_frames()

    def take_frames(self) -> None:
        """Take the frames that are whole."""
        while (each := self.reader.next_frame()) is not None:
            if each[1] == PING:
                if each[2] != ANSWER:
                    self.out += frame(0, PING, ANSWER)
            elif why := self.take(*each):
                self.end(why)
                return
        self.end(self.reader.mistake or "")

    def flush(self) -> None:
        """Send what there is to be sent, as far as the kernel takes it."""
        if not self.out or self.blocked:
            return
        try:
            del self.out[: self.link.send(self.out)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.out.clear()  # what has come before the end is read yet
        if self.out:
            self.blocked = True
            self.loop.add_writer(self.link.fileno(), self.unblock)

    def unblock(self) -> None:
        self.blocked = False
        self.loop.remove_writer(self.link.fileno())
        self.flush()

    def check_silence(self) -> None:
        """Ask for a sign of life if there was none lately; end the link if there was none for long."""
        if self.silence_count >= protocol_limits.LINK_SILENCES_MAX:
            self.end("silent")
            return
        if self.silence_count:
            self.out += frame(0, PING, b"\0")
        self.silence_count += 1

    def close(self) -> None:
        self.loop.remove_reader(self.link.fileno())
        if self.blocked:
            self.loop.remove_writer(self.link.fileno())
        self.link.close()


class ShardEnd:
    """The link to one shard: what its uplink finds, and what the switch makes of it."""

    def __init__(self, router: "ShardRouter", link: ShardLink) -> None:
        self.router = router
        self.link = link
        self.socket: LinkSocket | None = None
        self.observer = router.observer
        self.on_link_end: Callable[[str, int], None] | None = None
        self.uplink = Uplink(
            self,
            addresses_of(link.shard),
            map_epoch=router.map.epoch,
            shard=link.shard.numbers[0],
            on_open=partial(router.note_shard, self),
            on_failure=partial(router.note_shard_failure, self),
        )
        self.tried: set[str] = set()  # addresses that had no link

    def attach(self, link_fd: int, reader: FrameReader, asks: bool) -> None:  # noqa: ARG002 - as of a front
        """Carry channels over a link whose first lines are through."""
        self.socket = LinkSocket(socket.socket(fileno=link_fd), reader, self.link.out, self.link.take, self.end)
        self.router.switch.body_bytes_max = self.router.body_bytes_max
        self.router.switch.find(self.link.shard)
        self.socket.take_frames()
        self.router.turn()

    def end(self, reason: str) -> None:
        """Take note that the link has ended, or with an empty reason, that all was taken that had come."""
        if reason and self.socket is not None:
            channels = self.forget()
            if self.on_link_end is not None:
                self.on_link_end(reason, channels)
        self.router.turn()

    def forget(self) -> int:
        assert self.socket is not None
        self.socket.close()
        self.socket = None
        return self.link.end()

    def close_link(self) -> None:
        """End the link, if there is one."""
        if self.socket is not None:
            self.forget()


def addresses_of(shard: Shard) -> list[str]:
    return [str(each).removeprefix(SCHEME) for each in shard.nodes.each()]


class ShardRouter(Router):
    """One process of a router of several shards, on a loop."""

    def __init__(self, process_facts: Callable[[], Mapping[str, str]], *given: Any) -> None:  # noqa: ANN401
        """`process_facts` is what `stats` says of a process; the rest as of a Router. Raises MapError: it is wrong."""
        super().__init__(*given)
        self.process_facts = process_facts
        assert self.settings.map is not None
        self.file = MapFile(self.settings.map)
        self.began_ns = now_ns()
        self.facts: dict[bytes, bytes] = {}
        self.dead: frozenset[bytes] = frozenset()
        wait_ns = int(self.settings.wait_s * 1e9)
        self.switch = Switch(Places(self.map), self.body_bytes_max, now_ns, self.facts, wait_ns)
        self.switch.note_mistake = self.note_mistake
        self.ends: dict[str, ShardEnd] = {}
        self.below: LinkSocket | None = None
        self.looking: asyncio.TimerHandle | None = None
        self.ask_ns = 0  # when the shards' rules are asked for again

    @property
    def map(self) -> ShardMap:
        return self.file.map

    @property
    def body_bytes_max(self) -> int:
        """The least that a shard takes, of those that were linked."""
        ends = getattr(self, "ends", {})
        known = [each.uplink.body_bytes_max for each in ends.values() if each.uplink.body_bytes_max]
        return min(known, default=limits.BODY_BYTES_MAX_DEFAULT)

    def note_facts(self) -> None:
        """Take note of what `stats` says of the router itself."""
        for key, value in self.process_facts().items():
            self.facts[key.encode()] = (f'"{value}"' if key in QUOTED else value).encode()
        self.facts[b"uptime"] = b"%d" % ((now_ns() - self.began_ns) // 10**9)
        self.facts[b"map-epoch"] = b"%d" % self.map.epoch

    # --- links --------------------------------------------------------------------------------------------------------

    def start_links(self) -> None:
        """Link the front with the switch, and that with the shards."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, partial(self.look_at_map, at_once=True))
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        self.front.attach(theirs.detach(), FrameReader(False), False)
        self.below = LinkSocket(ours, FrameReader(True), self.switch.out, self.take_below, self.end_below)
        for link in self.switch.links.values():
            self.add_end(link)
        self.look()

    def stop_links(self) -> None:
        """End all links."""
        if self.looking is not None:
            self.looking.cancel()
        for each in self.ends.values():
            each.uplink.close()
        if self.below is not None:
            self.below.close()

    def add_end(self, link: ShardLink) -> None:
        end = self.ends[link.shard.name] = ShardEnd(self, link)
        end.uplink.start()

    def take_below(self, number: int, kind: int, payload: bytes) -> None:
        self.switch.take(number, kind, payload)

    def end_below(self, reason: str) -> None:
        """All was taken that the front had sent; or with a reason, the link with it has ended, as at the router's."""
        if not reason:
            self.turn()
        elif not self.ended.is_set():
            raise AssertionError(f"the front's link: {reason}")

    def turn(self) -> None:
        """Send what sessions have to send."""
        self.switch.turn()
        if self.below is not None:
            self.below.flush()
        for each in self.ends.values():
            if each.socket is not None:
                each.socket.flush()

    def note_shard(self, end: ShardEnd, address: str) -> None:
        self.links_opened += 1
        self.logger.info("link opened", shard=end.link.shard.name, link=address)
        self.begin_if_ready()

    def note_shard_failure(self, end: ShardEnd, address: str, reason: str, _is_refusal: bool) -> None:
        """Report that an address of a shard has no link."""
        shard = end.link.shard.name
        if self.observer.is_due(f"no link {shard} {address}", FAILURE_REPORT_NS):
            effect = f"commands for the shard wait, for {self.settings.wait_s:g} s each"
            self.logger.warning("no link", shard=shard, link=address, reason=reason, effect=effect)
        end.tried.add(address)
        self.begin_if_ready()

    def begin_if_ready(self) -> None:
        """Take clients when each shard has a link, or none is to be found now."""
        if all(each.socket is not None or {*each.uplink.addresses} <= each.tried for each in self.ends.values()):
            self.begin()

    def note_mistake(self, shard: Shard, reason: str) -> None:
        self.logger.warning("client closed", shard=shard.name, reason=f"the shard's reply is none: {reason}")

    # --- the clock, and the map ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Do what is to be done every second."""
        self.looking = asyncio.get_running_loop().call_later(LOOK_S, self.look)
        self.note_facts()
        for each in list(self.ends.values()):
            if each.socket is not None:
                each.socket.check_silence()
        self.switch.look_at_clock()
        self.look_at_map()
        if now_ns() >= self.ask_ns and self.ready is None:
            self.ask_ns = now_ns() + DEAD_TUBES_NS
            self.switch.ask(b"list-rules\r\n", self.note_rules)
        self.turn()

    def look_at_map(self, *, at_once: bool = False) -> None:
        """Go on by another map, if its file has one."""
        try:
            found = self.file.look(at_once=at_once)
        except MapError as error:
            self.logger.warning("map refused", reason=str(error), effect="the one in use stays")
            return
        if found is not None:
            self.use(found)

    def use(self, newest: ShardMap) -> None:
        """Go on by another map."""
        self.logger.info("map read", file=newest.file, epoch=newest.epoch, shards=len(newest.shards))
        self.note_facts()
        for link in self.switch.use(Places(newest, self.dead)):
            self.ends.pop(link.shard.name).uplink.close()
        for name, link in self.switch.links.items():
            if name not in self.ends:
                self.add_end(link)
            self.ends[name].uplink.go_to(addresses_of(link.shard), newest.epoch)
        self.turn()

    def note_rules(self, reply: bytes) -> None:
        """Take note into which tubes rules send the dead: they die on the shard where they are."""
        if not reply.startswith(b"OK "):
            return
        _, rules = read(text_of(reply))
        found = self.dead | {each[b"dead"].strip(b'"') for each in rules if b"dead" in each}
        if found != self.dead:
            self.dead = found
            self.switch.use(Places(self.map, self.dead))

    # --- what it counts -----------------------------------------------------------------------------------------------

    def health(self) -> str:
        """Return what is wrong, in a sentence; empty: nothing."""
        away = [name for name, each in self.ends.items() if each.socket is None]
        return f"there is no link to {' and '.join(away)}" if away else ""

    def link_metrics(self) -> Sequence[Metric]:
        linked = sum(each.socket is not None for each in self.ends.values())
        return (
            ("link", "gauge", "Whether there is a link to each shard.", int(linked == len(self.ends))),
            ("clients_waiting", "gauge", "Those that wait for a shard.", len(self.switch.waiting)),
            ("shards", "gauge", "Shards of the map.", len(self.ends)),
            ("shards_linked", "gauge", "Those to which there is a link.", linked),
            ("map_epoch", "gauge", "Epoch of the map.", self.map.epoch),
        )
