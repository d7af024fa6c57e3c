"""Numbers as people read them, in few characters."""

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86_400


def count(number: int) -> str:
    """A whole number, thousands apart; from a million on with three digits: ``12 345``, ``1.23M``."""
    for bound, unit in ((10**9, "G"), (10**6, "M")):
        if number >= bound:
            return f"{number / bound:.3g}{unit}" if number < 1000 * bound else f"{number // bound}{unit}"
    return f"{number:,}".replace(",", " ")


def rate(per_second: float | None) -> str:
    """Something a second: ``0``, ``0.4``, ``12``, ``1 234``; ``-`` if it is not known yet."""
    if per_second is None:
        return "-"
    if 0 < per_second < 9.95:
        return f"{per_second:.1f}"
    return count(round(per_second))


def wait(seconds: float) -> str:
    """A time that may be short: ``250µs``, ``1.2ms``, ``35ms``, ``4.5s``, ``12s``, ``2m05s``."""
    for scale, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * scale < 999.5:
            return f"{seconds * scale:.{int(0 < seconds * scale < 9.95)}f}{unit}"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    return duration(round(seconds))


def duration(seconds: float) -> str:
    """A time in its two largest units: ``4s``, ``2m05s``, ``3h07m``, ``12d04h``."""
    whole = int(seconds)
    if whole < MINUTE_S:
        return f"{whole}s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S}m{whole % MINUTE_S:02}s"
    if whole < DAY_S:
        return f"{whole // HOUR_S}h{whole % HOUR_S // MINUTE_S:02}m"
    return f"{whole // DAY_S}d{whole % DAY_S // HOUR_S:02}h"


def size(number: int) -> str:
    """Bytes: ``512 B``, ``64 KiB``, ``10 MiB``."""
    for bound, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= bound:
            return f"{number / bound:.3g} {unit}" if number < 1000 * bound else f"{number // bound} {unit}"
    return f"{number} B"


def plural(number: int, noun: str) -> str:
    """A number with what it counts: ``1 job``, ``2 jobs``."""
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def spark(values: "list[float]", width: int) -> str:
    """The last `width` values as a line of bars, the largest of them full height."""
    shown = values[-width:] if width else []
    top = max(shown, default=0.0)
    bars = "▁▂▃▄▅▆▇█"
    return "".join(bars[min(int(each / top * 8), 7)] if top and each else " " for each in shown).rjust(width)
