"""Samples that tests make up."""

from beanpole.client import Histograms, Stats, StatsTube
from beanpole.observe.sampling import Sample

STATS: dict[str, "int | str"] = {"cmd-put": 5, "version": "1.13", "id": "a", "uptime": 7, "draining": "false"}


def stats(**more: "int | str") -> Stats:
    """What a server says of itself; keys have underscores here."""
    raw = STATS | {key.replace("_", "-"): value for key, value in more.items()}
    return Stats.parse(("---\n" + "".join(f"{key}: {value}\n" for key, value in raw.items())).encode())


def tube(name: str, **counts: int) -> StatsTube:
    """What a server says of a tube; keys have underscores here."""
    return StatsTube(raw={"name": name} | {key.replace("_", "-"): value for key, value in counts.items()}, name=name)


def sample(*tubes: StatsTube, at_s: float = 0, histograms: Histograms | None = None, **more: "int | str") -> Sample:
    return Sample(int(at_s * 1e9), stats(**more), {each.name: each for each in tubes}, histograms)
