"""Samples that tests make up."""

from collections.abc import Mapping

from beanpole.client import Stats, StatsTube
from beanpole.console.sample import Sample

STATS: dict[str, "int | str"] = {"cmd-put": 5, "version": "1.13", "id": "a", "uptime": 7, "draining": "false"}


def stats(**more: "int | str") -> Stats:
    """What a server says of itself; keys have underscores here."""
    raw = STATS | {key.replace("_", "-"): value for key, value in more.items()}
    return Stats.parse(("---\n" + "".join(f"{key}: {value}\n" for key, value in raw.items())).encode())


def tube(name: str, **counts: int) -> StatsTube:
    """What a server says of a tube; keys have underscores here."""
    return StatsTube(raw={"name": name} | {key.replace("_", "-"): value for key, value in counts.items()}, name=name)


def sample(tubes: list[StatsTube], rest: Mapping[str, int] | None = None, **more: "int | str") -> Sample:
    """A sample of a server, all of whose given tubes have metrics of their own."""
    return Sample(0, stats(**more), tubes, tubes, rest or {})
