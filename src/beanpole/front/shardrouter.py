"""A router of several shards, by a map (docs/shards.md): ``beanpole route --map`` starts it.

The clients' sockets are those of a front, as of a router of one server. Its link ends in this process, in a
:class:`~beanpole.front.switch.Switch`, which has a link to each shard. This module has what finds the shards, the map's
file, and the clock.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from beanpole import limits
from beanpole.address import SCHEME
from beanpole.errors import MapError
from beanpole.front.gather import text_of
from beanpole.front.linksocket import LinkSocket
from beanpole.front.merging import read
from beanpole.front.router import FAILURE_REPORT_NS, Metric, Router
from beanpole.front.switch import MapFront, ShardLink, Switch
from beanpole.front.uplink import Uplink
from beanpole.server.eventqueue import now_ns
from beanpole.shards.file import MapFile
from beanpole.shards.map import Places, Shard, ShardMap

LOOK_S = 1.0  # from one look at the map's file, and at links on which nothing comes, to the next
DEAD_TUBES_NS = 10_000_000_000  # from one question for the tubes that rules name as ``dead:`` to the next
QUOTED = {"hostname", "os", "platform", "beanpole-version"}  # facts of a process that stand in quotes


def addresses_of(shard: Shard) -> list[str]:
    return [str(each).removeprefix(SCHEME) for each in shard.nodes.each()]


class ShardRouter(Router):
    """One process of a router of several shards, on a loop."""

    front_class = MapFront
    front: MapFront

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
        self.switch = Switch(Places(self.map), limits.BODY_BYTES_MAX_CEILING, now_ns, self.facts, wait_ns)
        self.switch.note_mistake = self.note_mistake
        self.switch.note_gone = self.note_gone
        self.uplinks: dict[str, Uplink] = {}  # by the names of shards
        self.tried: set[tuple[str, str]] = set()  # shards, and their addresses that had no link
        self.looking: asyncio.TimerHandle | None = None
        self.ask_ns = 0  # when the shards' rules are asked for again

    @property
    def map(self) -> ShardMap:
        return self.file.map

    def note_facts(self) -> None:
        """Take note of what `stats` says of the router itself."""
        for key, value in self.process_facts().items():
            self.facts[key.encode()] = (f'"{value}"' if key in QUOTED else value).encode()
        self.facts[b"uptime"] = b"%d" % ((now_ns() - self.began_ns) // 10**9)
        self.facts[b"map-epoch"] = b"%d" % self.map.epoch

    # --- links --------------------------------------------------------------------------------------------------------

    def start_links(self) -> None:
        """Link the front with the switch, and that with the shards."""
        self.front.carry(self.switch)
        for link in self.switch.links.values():
            self.start_uplink(link)
        self.look()

    def stop_links(self) -> None:
        """End all links."""
        if self.looking is not None:
            self.looking.cancel()
        for each in self.uplinks.values():
            each.close()

    def start_uplink(self, link: ShardLink) -> None:
        """Begin to look for a shard's server."""
        shard = link.shard
        link.observer = self.observer
        uplink = self.uplinks[shard.name] = Uplink(
            link,
            addresses_of(shard),
            map_epoch=self.map.epoch,
            shard=shard.numbers[0],
            login=self.settings.login,
            on_open=partial(self.note_shard, shard.name),
            on_failure=partial(self.note_shard_failure, shard.name),
        )
        uplink.start()

    def note_gone(self, shard: Shard) -> None:
        self.uplinks.pop(shard.name).close()

    def note_shard(self, shard: str, address: str) -> None:
        self.links_opened += 1
        known = [each.body_bytes_max for each in self.uplinks.values() if each.body_bytes_max]
        self.switch.body_bytes_max = max(known)  # a shard that takes less says so itself
        self.logger.info("link opened", shard=shard, link=address)
        self.begin_if_ready()
        self.front.poll()

    def note_shard_failure(self, shard: str, address: str, reason: str, _is_refusal: bool) -> None:
        """Report that an address of a shard has no link."""
        if self.observer.is_due(f"no link {shard} {address}", FAILURE_REPORT_NS):
            effect = f"commands for the shard wait, for {self.settings.wait_s:g} s each"
            self.logger.warning("no link", shard=shard, link=address, reason=reason, effect=effect)
        self.tried.add((shard, address))
        self.begin_if_ready()

    def begin_if_ready(self) -> None:
        """Take clients when each shard has a link, or none is to be found now."""
        if all(
            link.is_open or {(name, address) for address in self.uplinks[name].addresses} <= self.tried
            for name, link in self.switch.links.items()
        ):
            self.begin()

    def note_mistake(self, shard: Shard, reason: str) -> None:
        self.logger.warning("client closed", shard=shard.name, reason=f"the shard's reply is none: {reason}")

    # --- the clock, and the map ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Do what is to be done every second."""
        self.looking = asyncio.get_running_loop().call_later(LOOK_S, self.look)
        self.note_facts()
        for each in self.switch.links.values():
            if each.is_open:
                each.check_silence()
        self.switch.look_at_clock()
        self.look_at_map()
        if now_ns() >= self.ask_ns and self.ready is None:
            self.ask_ns = now_ns() + DEAD_TUBES_NS
            self.switch.ask(b"list-rules\r\n", self.note_rules)
        self.front.poll()

    def reread(self) -> None:
        super().reread()
        self.look_at_map(at_once=True)

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
        self.ask_ns = 0  # with the question the shards hear of the map
        self.switch.use(Places(newest, self.dead))
        for name, link in self.switch.links.items():
            if name not in self.uplinks:
                self.start_uplink(link)
            self.uplinks[name].go_to(addresses_of(link.shard), newest.epoch)
        self.front.poll()

    def note_rules(self, reply: bytes) -> None:
        """Take note into which tubes rules send the dead: they die on the shard where they are."""
        if not reply.startswith(b"OK "):
            return
        _, rules = read(text_of(reply))
        found = self.dead | {each[b"dead"].strip(b'"') for each in rules if b"dead" in each}
        if found != self.dead:
            self.dead = found
            self.switch.use(Places(self.map, self.dead))
        if rules:  # there may be another page
            self.switch.ask(b"list-rules after=%b\r\n" % rules[-1][b"pattern"].strip(b'"'), self.note_rules)

    # --- what it counts -----------------------------------------------------------------------------------------------

    def health(self) -> str:
        """Return what is wrong, in a sentence; empty: nothing. A router that serves some shards is better than none."""
        is_linked = any(each.is_open for each in self.links())
        return "" if is_linked else f"there is no link to {' and '.join(self.switch.links)}"

    def links(self) -> Sequence[LinkSocket]:
        return list(self.switch.links.values())

    def link_metrics(self) -> Sequence[Metric]:
        links = {f'{{shard="{name}"}}': link for name, link in self.switch.links.items()}
        linked = sum(each.is_open for each in links.values())
        counts = self.switch.counts
        commands = {label: each.commands for label, each in links.items()}
        missing = {label: each.missing_s for label, each in links.items()}
        return (
            ("link", "gauge", "Whether there is a link to each shard.", int(linked == len(self.switch.links))),
            ("clients_waiting", "gauge", "Those that wait for a shard.", len(self.switch.waiting)),
            ("shards", "gauge", "Shards of the map.", len(self.switch.links)),
            ("shards_linked", "gauge", "Those to which there is a link.", linked),
            ("shard_commands_total", "counter", "Commands that were sent to a shard.", commands),
            ("shard_missing_seconds_total", "counter", "How long there was no link to a shard.", missing),
            (
                "reserve_questions_total",
                "counter",
                "How often one of several was asked for jobs.",
                counts.questions,
            ),
            ("reserve_found_total", "counter", "How often it had some.", counts.found),
            ("map_epoch", "gauge", "Epoch of the map.", self.map.epoch),
        )
