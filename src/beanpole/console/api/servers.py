"""Servers, and what is connected to them."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from beanpole.client.stats import Stats, StatsTube, typed_keys
from beanpole.console.api.operations import Asked
from beanpole.console.live.seen import see
from beanpole.console.servers import Server
from beanpole.observe.growth import UNKNOWN, Rates
from beanpole.observe.sampling import role_of

Figures = Annotated[
    Mapping[str, int | float | str | bool],
    Meta(description="What the server says itself, by its own keys: docs/protocol.md explains them."),
]


class ServerShown(Struct, frozen=True):
    """A server that the console looks at."""

    name: Annotated[str, Meta(description="What it is called in the paths of the others.")]
    address: Annotated[str, Meta(description="HOST:PORT or unix:PATH; its name if it has started the console itself.")]
    away: Annotated[str | None, Meta(description="Why it does not answer; null: it does.")]
    away_since: Annotated[float | None, Meta(description="In Unix seconds; null: it is there.")]
    role: Annotated[str, Meta(description="leader or follower; empty: it is in no cluster.")]
    rates: Annotated[Rates, Meta(description="Jobs a second between its last two samples; null: not known.")]
    stats: Annotated[Figures | None, Meta(description="As it said last; null: it was never there.")]


class ServersShown(Struct, frozen=True):
    """The servers of the console."""

    items: list[ServerShown]


def figures_of(stats: Stats | StatsTube) -> dict[str, int | float | str | bool]:
    """What a server says by its own keys, in types of JSON."""
    typed = {key: getattr(stats, name) for name, key, _ in typed_keys(type(stats))}
    return {key: typed.get(key, value) for key, value in stats.items()}


async def shown(server: Server) -> ServerShown:
    """What is known of a server."""
    seen = await see(server)
    if seen.sample is None:
        return ServerShown(server.name, server.source.address_text, seen.reason, seen.away_since, "", UNKNOWN, None)
    return ServerShown(
        server.name,
        server.source.address_text,
        seen.reason if seen.is_away else None,
        seen.away_since,
        role_of(seen.sample.stats),
        seen.total,
        figures_of(seen.sample.stats),
    )


async def list_servers(asked: Asked) -> ServersShown:
    """The servers that the console looks at, also those that are away."""
    return ServersShown(list(await asyncio.gather(*map(shown, asked.console.servers.values()))))


async def get_server(asked: Asked) -> ServerShown:
    """One server."""
    return await shown(asked.server)
