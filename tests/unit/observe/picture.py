"""The picture of `top` in the documentation: `python -m tests.unit.observe.picture` in a checkout draws it again."""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from beanpole.observe.growth import Quantiles
from beanpole.observe.screen import rows_in, screen
from beanpole.observe.top import Top
from beanpole.observe.top_sampler import CommandRates, TopSample
from tests.unit.observe.made import SECOND_NS, row, server

FILE = Path(__file__).resolve().parents[3] / "docs" / "top.svg"
WIDTH, HEIGHT = 110, 20

ROWS = (
    row("thumbnails.large", current_jobs_ready=14_811, current_jobs_reserved=16, current_watching=16, put_rate=122.0,
        delete_rate=97.0, oldest_ready=151, waits=Quantiles(118.0, 149.0), runs=Quantiles(2.1, 9.4)),
    row("emails", current_jobs_ready=1_204, current_jobs_reserved=40, current_jobs_delayed=310, current_watching=40,
        put_rate=911.0, delete_rate=908.5, oldest_ready=1, waits=Quantiles(0.62, 1.31), runs=Quantiles(0.04, 0.31)),
    row("reports", current_jobs_ready=240, current_jobs_buried=7, put_rate=0.2, delete_rate=0.0,
        oldest_ready=4321),
    row("search.reindex", current_jobs_ready=120, current_watching=4, pause=7200, pause_time_left=7140, put_rate=0.0,
        delete_rate=0.0, oldest_ready=93),
    row("billing.invoices", current_jobs_reserved=2, current_watching=8, current_waiting=6, put_rate=31.0,
        delete_rate=31.0, oldest_ready=0, waits=Quantiles(0.00018, 0.0021), runs=Quantiles(0.021, 0.16)),
    row("webhooks", current_jobs_delayed=58, current_watching=8, current_waiting=8, put_rate=4.4,
        delete_rate=4.5, oldest_ready=0, waits=Quantiles(0.00014, 0.0038), runs=Quantiles(0.35, 4.8)),
    row("default", current_watching=31, put_rate=0.0, delete_rate=0.0),
    row("audit-log", current_watching=1, current_waiting=1, put_rate=0.0, delete_rate=0.0),
)  # fmt: skip

SERVER = server(
    current_jobs_ready=16_375, current_jobs_urgent=12, current_jobs_reserved=58, current_jobs_delayed=368,
    current_jobs_buried=7, current_connections=108, current_producers=31, current_workers=77, current_waiting=15,
    job_timeouts=38, total_jobs=9_204_117, binlog_records_written=27_410_230, uptime=275_000, pid=4711,
    hostname='"queue-1"', current_tubes=8,
)  # fmt: skip


def picture() -> str:
    """The picture, as SVG."""
    top = Top()
    for number in range(60):
        swing = number * 37 % 23 - 11
        rates = CommandRates(1068.0 + swing * 50, 1043.0 + swing * 43, 1041.0 + swing * 47, 0.0)
        rows = {each.stats.name: each for each in ROWS}
        top.show(
            TopSample(
                number * SECOND_NS,
                SERVER,
                rates,
                rows,
                len(ROWS),
                Quantiles(0.61, 138.0),
                Quantiles(0.05, 8.2),
                timed=True,
            )
        )
    top.resize(rows_in(HEIGHT))
    for key in ("down", "down"):
        top.press(key)
    console = Console(record=True, width=WIDTH, height=HEIGHT, file=io.StringIO(), force_terminal=True)
    console.print(screen(top, "beanstalk://127.0.0.1:11300", WIDTH, HEIGHT))
    drawn = console.export_svg(title="beanpole top", theme=MONOKAI, unique_id="top")
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
    return "\n".join(line.rstrip() for line in drawn.split("\n") if line.strip()) + "\n"


if __name__ == "__main__":
    sys.stdout.write(picture())
