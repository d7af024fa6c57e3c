"""The two text formats of Prometheus, written from samples, a slice at a time.

Both are written here and not by prometheus-client, which needs more than a second for a thousand tubes. The lines of a
metric stand together, whatever server they are of. Labels and numbers look the same in both formats, which differ in
the names of counters and in the last line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from beanpole.console.metrics import families
from beanpole.console.metrics.families import HistogramFamily, Kind, RightsFamily, ServerFamily, TubeFamily, Value
from beanpole.console.metrics.metered import Metered, Row

CHARS_PER_SLICE = 65_536  # characters that are written before other requests are served: about a millisecond

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

REST = "*"  # what stands for the name of the tubes without metrics of their own; no tube has this name


@dataclass(frozen=True, slots=True)
class Scraped:
    """A server in a scrape."""

    name: str  # the label `server`; empty: it has none, for the scrape is of one server
    address: str
    sample: Metered | None  # None: it is away

    @property
    def labels(self) -> tuple[str, ...]:
        return (f'server="{escaped(self.name)}"',) if self.name else ()


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def head(name: str, kind: Kind, help_text: str, *, openmetrics: bool) -> str:
    full = f"{name}_total" if kind is Kind.COUNTER and not openmetrics else name
    return f"# HELP {full} {help_text}\n# TYPE {full} {kind}\n"


def line(name: str, labels: Iterable[str], value: Value) -> str:
    text = ",".join(labels)
    return f"{name}{{{text}}} {value}\n" if text else f"{name} {value}\n"


def lines_of(servers: Sequence[Scraped], *, openmetrics: bool) -> Iterator[str]:
    yield head(families.UP, Kind.GAUGE, families.UP_HELP, openmetrics=openmetrics)
    for server in servers:
        yield line(families.UP, server.labels, int(server.sample is not None))
    for family in families.SERVER_FAMILIES:
        yield from with_head(family, server_lines(family, servers), openmetrics=openmetrics)
    for one in families.RIGHTS_FAMILIES:
        yield from with_head(one, rights_lines(one, servers), openmetrics=openmetrics)
    for each in families.TUBE_FAMILIES:
        yield from with_head(each, tube_lines(each, servers), openmetrics=openmetrics)
    yield from with_head(families.TAKES_DEAD, dead_lines(servers), openmetrics=openmetrics)
    for timed in families.HISTOGRAM_FAMILIES:
        yield from with_head(timed, histogram_lines(timed, servers), openmetrics=openmetrics)


Family = ServerFamily | RightsFamily | TubeFamily | HistogramFamily


def with_head(family: Family, lines: Iterator[str], *, openmetrics: bool) -> Iterator[str]:
    """The lines of a metric, and before them what it is; nothing if it has none."""
    first = next(lines, None)
    if first is not None:
        yield head(family.name, family.kind, family.help, openmetrics=openmetrics)
        yield first
        yield from lines


def server_lines(family: ServerFamily, servers: Sequence[Scraped]) -> Iterator[str]:
    name = family.name + "_total" * (family.kind is Kind.COUNTER)
    for server in servers:
        sample = server.sample
        if sample is not None and (sample.leads or not family.of_jobs):
            for values, value in family.values(sample.stats):
                labels = (f'{label}="{escaped(each)}"' for label, each in zip(family.labels, values, strict=True))
                yield line(name, (*server.labels, *labels), value)


def rights_lines(family: RightsFamily, servers: Sequence[Scraped]) -> Iterator[str]:
    name = family.name + "_total" * (family.kind is Kind.COUNTER)
    for server in servers:
        rights = server.sample.rights if server.sample is not None else None
        for values, value in family.values(rights) if rights is not None else ():
            labels = (f'{label}="{escaped(each)}"' for label, each in zip(family.labels, values, strict=True))
            yield line(name, (*server.labels, *labels), value)


def tube_lines(family: TubeFamily, servers: Sequence[Scraped]) -> Iterator[str]:
    name = family.name + "_total" * (family.kind is Kind.COUNTER)
    for server in servers:
        sample = server.sample
        if sample is None:
            continue
        begins = f'{name}{{{"".join(f"{each}," for each in server.labels)}tube="'
        parts = [(end_of(family, label), key) for label, key in family.parts if key in sample.keys]
        for tube in sample.named.values():
            raw, begin = tube.raw, begins + escaped(tube.name)
            for end, key in parts:
                value = raw[key]
                yield f"{begin}{end}{int(value != 0) if family.flag else value}\n"
        if sample.rest:
            for end, key in parts:
                yield f"{begins}{REST}{end}{sample.rest.get(key, 0)}\n"


def dead_lines(servers: Sequence[Scraped]) -> Iterator[str]:
    """A line for each tube with metrics of its own that takes the dead: there is none for the others."""
    for server in servers:
        for name in server.sample.dead_tubes if server.sample is not None else ():
            yield line(families.TAKES_DEAD.name, (*server.labels, f'tube="{escaped(name)}"'), 1)


def end_of(family: TubeFamily, label: str) -> str:
    """What stands between the name of a tube and the value."""
    return f'",{family.labels[1]}="{label}"}} ' if label else '"} '


def histogram_lines(family: HistogramFamily, servers: Sequence[Scraped]) -> Iterator[str]:
    for server in servers:
        times = server.sample.times if server.sample is not None else None
        if times is None:
            continue
        les = [f'le="{each / family.per}"}} ' for each in times.bounds.get(family.unit, ())] + ['le="+Inf"} ']
        if not family.labels and family.key in times.server:
            yield histogram(family, les, ",".join(server.labels), times.server[family.key])
        elif family.labels:
            for name, rows in times.tubes.items():
                if family.key in rows:
                    labels = ",".join((*server.labels, f'tube="{escaped(name)}"'))
                    yield histogram(family, les, labels, rows[family.key])
            rest = times.rest.get(family.key)
            if rest is not None and any(rest):
                yield histogram(family, les, ",".join((*server.labels, f'tube="{REST}"')), rest)


def histogram(family: HistogramFamily, les: Sequence[str], labels: str, row: Row) -> str:
    """The lines of one histogram, whose counts add up."""
    begin, total = f"{family.name}_bucket{{{labels}{',' * bool(labels)}", 0
    written: list[str] = []
    for le, count in zip(les, row[1:], strict=True):
        total += count
        written.append(f"{begin}{le}{total}\n")
    braces = f"{{{labels}}}" if labels else ""
    written.append(f"{family.name}_sum{braces} {row[0] / family.per}\n{family.name}_count{braces} {total}\n")
    return "".join(written)


def slices(lines: Iterator[str]) -> Iterator[bytes]:
    """The same in pieces that take about a millisecond each."""
    piece: list[str] = []
    chars = 0
    for each in lines:
        piece.append(each)
        chars += len(each)
        if chars >= CHARS_PER_SLICE:
            yield encoded(piece)
            piece, chars = [], 0
    yield encoded(piece)


def encoded(lines: list[str]) -> bytes:
    """The bytes of lines; what a server sent that is no UTF-8 becomes a question mark."""
    return "".join(lines).encode("utf-8", "replace")
