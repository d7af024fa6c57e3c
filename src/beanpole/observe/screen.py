"""What `top` looks like: its state as lines of text with styles, cut to the size of the window.

Only the sixteen colours of a terminal are used, in the shades that its owner has chosen, and never alone: what is red
also has a number, what is selected also stands out without colour.
"""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.text import Text

from beanpole.client import GroupStats, StatsJob
from beanpole.observe.columns import COLUMNS, GAP, Column, fitting
from beanpole.observe.sampling import hides_numbers
from beanpole.observe.top import HELP, Mode, Top
from beanpole.observe.top_sampler import CommandRates, Row, TopSample
from beanpole.observe.units import count, duration, plural, rate, size, spark, wait

HEAD_LINES = 7  # lines above the first row
FOOT_LINES = 1
RATE_WIDTH = 22  # characters of a line with a rate, without its bars and the fact to its right

TITLE = "reverse bold"

STATES = (("ready", "green"), ("reserved", "cyan"), ("delayed", "blue"), ("buried", "red"))
"""The states of jobs and their colours, here as in the table."""

RATES: tuple[tuple[str, Callable[[CommandRates], float], str], ...] = (
    ("put", lambda rates: rates.put, "green"),
    ("reserve", lambda rates: rates.reserve, "cyan"),
    ("delete", lambda rates: rates.delete, "magenta"),
)

KEYS = (
    ("↑↓", "select", 3),
    ("enter", "open", 6),
    ("<>", "sort", 4),
    ("r", "reverse", 1),
    ("/", "filter", 8),
    ("k", "kick", 7),
    ("p", "pause", 5),
    ("u", "resume", 2),
    ("?", "help", 10),
    ("q", "quit", 9),
)
"""What keys do; where not all have a place, the one with the smallest number goes first."""

TUBE_KEYS = tuple(each for each in KEYS if each[0] in "kpu?q")
"""Those of them where a tube is shown alone."""


def rows_in(height: int) -> int:
    return height - HEAD_LINES - FOOT_LINES


def screen(top: Top, address: str, width: int, height: int) -> Group:
    helping = top.mode is Mode.HELP
    lines = [*help_page()] if helping else [*head(top, address, width), *body(top, width)]
    lines = lines[: height - FOOT_LINES]
    lines += [Text()] * (height - FOOT_LINES - len(lines))
    return Group(*(cut(line, width) for line in (*lines, foot(top, width))))


def body(top: Top, width: int) -> Iterator[Text]:
    return tube_page(top) if top.mode is Mode.TUBE else table(top, width)


def plain(top: Top, address: str, width: int) -> Group:
    """The head and all rows, for paper."""
    top.selected = ""
    return Group(*(cut(line, width) for line in (*head(top, address, width), *table(top, width))))


def cut(line: Text, width: int) -> Text:
    """A line that takes one line of the window, whatever is in it."""
    line.no_wrap, line.overflow = True, "ellipsis"
    line.truncate(width, overflow="ellipsis")
    return line


# --- The head ---------------------------------------------------------------------------------------------------------


def head(top: Top, address: str, width: int) -> Iterator[Text]:
    sample = top.sample
    yield title(top, address, width)
    if sample is None:
        yield from (Text(), Text("  asking the server ..." if not top.problem else ""))
        return
    yield jobs_line(sample)
    yield bar(sample, width)
    right = facts(sample)
    rates = top.history[-1] if top.history else None
    bars = max(width - RATE_WIDTH - max(len(fact) for fact in right), 0)
    for (name, of, style), fact in zip(RATES, right, strict=True):
        line = Text.assemble(f" {name:<8}", (f"{rate(of(rates)) if rates else '-':>7}", style), "/s ")
        line.append(spark([of(each) for each in top.history], bars), style)
        yield line.append("  ").append_text(fact)
    if top.mode is Mode.TUBE:
        row = top.row_of(top.opened)
        yield Text(f" {COLUMNS[0].cell(row).text if row else top.opened}".ljust(width), TITLE)
    else:
        yield titles(top, width)


def title(top: Top, address: str, width: int) -> Text:
    """Which server this is; in its place, what is wrong."""
    if top.problem:
        return Text(f" {top.problem}".ljust(width), "bold white on red")
    line = Text(" ")
    if top.sample is not None:
        server = top.sample.server
        ours = server.get("beanpole-version")
        name = f"beanpole {ours}" if ours else f"beanstalkd {server.version}"
        line.append(name, "bold").append(f"  {address}  ")
        if "shards" in server:
            line.append(plural(int(server["shards"]), "shard"))
            line.append(f", AWAY: {server['shards-away']}" if "shards-away" in server else "", "bold red")
        else:
            line.append(f"up {duration(server.uptime)}  pid {server.pid}")
            line.append(f" on {server.hostname}" if server.hostname else "")
        if server.draining:
            line.append("  DRAINING", "bold yellow")
    else:
        line.append(address, "bold")
    return line


def jobs_line(sample: TopSample) -> Text:
    line = Text(" ")
    if hides_numbers(sample.server):
        line.append("the numbers of the whole server need stats = true   ", "italic")
    for state, style in () if hides_numbers(sample.server) else STATES:
        number = getattr(sample.server, f"current_jobs_{state}")
        line.append(f"{state} ").append(count(number), f"bold {style}" if number else "")
        if state == "ready" and sample.server.current_jobs_urgent:
            line.append(f" ({count(sample.server.current_jobs_urgent)} urgent)")
        line.append("   ")
    if sample.waits is not None:
        line.append(f"p50 {wait(sample.waits.half_s)}  p99 {wait(sample.waits.most_s)}")
    if sample.runs is not None:
        line.append(f"  run99 {wait(sample.runs.most_s)}")
    return line


def bar(sample: TopSample, width: int) -> Text:
    """The jobs by state as shares of one bar; a state that has a job has a character at least."""
    numbers = [getattr(sample.server, f"current_jobs_{state}") for state, _ in STATES]
    total, room = sum(numbers), width - 2
    line = Text(" ")
    if not total:
        return line.append("─" * room, "bright_black")
    widths = [max(round(number / total * room), 1) if number else 0 for number in numbers]
    widths[widths.index(max(widths))] += room - sum(widths)
    for (_, style), each in zip(STATES, widths, strict=True):
        line.append("█" * each, style)
    return line


def facts(sample: TopSample) -> tuple[Text, Text, Text]:
    server = sample.server
    if hides_numbers(server):
        return Text(f"{plural(server.current_connections, 'connection')} of this user"), Text(), Text()
    who = f"{plural(server.current_producers, 'producer')}, {plural(server.current_workers, 'worker')}"
    connections = Text(f"{plural(server.current_connections, 'connection')}: {who}, ")
    connections.append(f"{count(server.current_waiting)} waiting")
    timeouts = sample.rates.timeout if sample.rates else None
    line = Text("timeouts ").append(f"{rate(timeouts)}/s", "bold yellow" if timeouts else "")
    line.append(f", {count(server.job_timeouts)} in all   jobs put {count(server.total_jobs)}")
    return connections, line, Text(log_fact(sample))


def log_fact(sample: TopSample) -> str:
    """How jobs are kept: in a cluster, or by the policy of our log in files, of which only the last may be smaller."""
    server = sample.server
    if role := server.get("cluster-role"):
        unwritten = f"{count(int(server.get('cluster-lag', 0)))} bytes to be confirmed"
        return f"cluster: {role} of epoch {server.get('cluster-epoch')}, {server.get('durability')}, {unwritten}"
    if not server.binlog_current_index:
        return "no log: jobs are in memory only"
    files = plural(server.binlog_current_index - max(server.binlog_oldest_index, 1) + 1, "file")
    policy = server.get("durability")
    kept = f"log: synced {policy}" if policy else "log"
    return f"{kept}, {files} of {size(server.binlog_max_size)}, {count(server.binlog_records_written)} records"


# --- The table --------------------------------------------------------------------------------------------------------


def titles(top: Top, width: int) -> Text:
    line = Text("", TITLE)
    columns = fitting(width, timed=top.timed)
    for column in columns:
        text = column.title
        if column is top.column:
            text += "▼" if top.descending else "▲"
        line.append(aligned(text, column, columns, width), "bold yellow" if column is top.column else "")
    return line.append(" ")


def aligned(text: str, column: Column, columns: Sequence[Column], width: int) -> str:
    """A cell's text in the width of its column: the tube to the left, all else to the right."""
    if column is COLUMNS[0]:
        room = width - sum(each.width + GAP for each in columns[1:]) - 2
        return " " + (text if len(text) <= room else text[: room - 1] + "…").ljust(room)
    return text[: column.width + GAP].rjust(column.width + GAP)


def table(top: Top, width: int) -> Iterator[Text]:
    if top.sample is None:
        return
    columns = fitting(width, timed=top.timed)
    for row in top.page():
        yield row_line(row, columns, width, selected=row.stats.name == top.selected)
    if not top.rows:
        yield Text(f"  no tube has {top.pattern!r} in its name" if top.pattern else "  no tube yet", "italic")


def row_line(row: Row, columns: Sequence[Column], width: int, *, selected: bool) -> Text:
    line = Text("", "reverse" if selected else "")
    for column in columns:
        text, style = column.cell(row)
        line.append(aligned(text, column, columns, width), "" if selected else style)
    return line.append(" ")


def tube_page(top: Top) -> Iterator[Text]:
    """A tube alone: what the table says of it, a line each, and its first jobs; fits a window of 24 lines.

    Below that stand its groups, as many as have a place.
    """
    row = top.row_of(top.opened)
    if row is None or top.sample is None:
        yield Text("  the tube is gone", "italic")
        return
    heads = {state: head_line(*found) for state, found in top.sample.heads.items()}
    for column in COLUMNS[1:]:
        if column.timed and not top.timed:
            continue
        text, style = column.cell(row)
        meaning = heads.get(column.title.lower(), column.help)
        yield Text.assemble(f" {column.title:<10}", (f"{text:>10}", style), f"  {meaning}")
    for group in top.sample.groups:
        style = "bold green" if group.ready else ""
        yield Text.assemble(f" {'GROUP':<10}", (f"{count(group.ready):>10}", style), f"  {group_line(group)}")


def group_line(group: GroupStats) -> str:
    name = group.group if group.group.isprintable() else repr(group.group)[1:-1]
    closed = f", closed by {' and '.join(group.closed)}" if group.closed else ""
    return f"{name or 'no group'}: {count(group.reserved)} reserved{closed}"


def head_line(size_bytes: int, job: StatsJob) -> str:
    """The first job in a state: the one that is next to leave it."""
    left = f", ready in {duration(job.time_left)}" if job.state == "delayed" else ""
    return f"first: job {job.id}, {plural(size_bytes, 'byte')}, pri {job.pri}, {duration(job.age)} old{left}"


def help_page() -> Iterator[Text]:
    """What keys and columns mean, on the 23 lines that a small terminal has."""
    yield Text(" Keys", "bold")
    for key, meaning in HELP:
        yield Text.assemble(f"   {key:<18}", meaning)
    yield Text(" Columns", "bold")
    for column in COLUMNS:
        yield Text.assemble(f"   {column.title:<18}", column.help)


# --- The foot ---------------------------------------------------------------------------------------------------------


def foot(top: Top, width: int) -> Text:
    if top.mode is Mode.HELP:
        return Text(" any key: back to the table".ljust(width), TITLE)
    if top.mode is Mode.FILTER:
        return Text.assemble(" Tubes with: ", (top.pattern, "bold"), ("▏", "blink"), ("  Enter keeps, Esc ends", "dim"))
    if top.mode is Mode.KICK:
        number, state = top.kickable()
        question = f" Kick how many of the {count(number)} {state} jobs of {top.asked_tube}? "
        return prompt(question, top, "Enter alone: all, Esc: none")
    if top.mode is Mode.PAUSE:
        return prompt(f" Pause {top.asked_tube} for how many seconds? ", top, "Enter alone: 3600, Esc: not")
    if top.message:
        return Text(f" {top.message}", "bold yellow")
    is_alone = top.mode is Mode.TUBE
    return keys_line(Text("Esc: back") if is_alone else shown(top), width, TUBE_KEYS if is_alone else KEYS)


def keys_line(text: Text, width: int, keys: Sequence[tuple[str, str, int]] = KEYS) -> Text:
    """The keys, and a text behind them that has its place first."""
    kept = list(keys)
    while kept and 1 + sum(len(key) + len(meaning) + 3 for key, meaning, _ in kept) + len(text) > width:
        kept.remove(min(kept, key=lambda each: each[2]))
    line = Text(" ")
    for key, meaning, _ in kept:
        line.append(key, "bold").append(f" {meaning}  ", "dim")
    return line.append_text(text)


def prompt(question: str, top: Top, hint: str) -> Text:
    return Text.assemble(
        (question, "bold"),
        top.typed,
        ("▏", "blink"),
        (f"  {top.message}", "bold yellow") if top.message else (f"  {hint}", "dim"),
    )


def shown(top: Top) -> Text:
    """How many tubes there are, and why not all are in the table."""
    if top.sample is None:
        return Text()
    known, there = len(top.sample.rows), top.sample.tube_count
    text = plural(len(top.rows), "tube")
    if top.pattern:
        text += f" with {top.pattern!r}"
        text += "" if hides_numbers(top.sample.server) else f" of {count(top.sample.server.current_tubes)}"
    if known < there:
        text += f", {count(there - known)} not asked yet"
    return Text(text, "italic")
