"""What the view looks like, as text: nothing is lost in a narrow window, and nothing takes a line too many."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from beanpole.client import GroupStats
from beanpole.observe.columns import COLUMNS, fitting
from beanpole.observe.growth import Quantiles
from beanpole.observe.screen import plain, rows_in, screen
from beanpole.observe.top import Top
from beanpole.observe.top_sampler import CommandRates, TopSample
from tests.unit.observe.made import CLUSTER, job, row, server, top_sample


def drawn(top: Top, width: int = 120, height: int = 24) -> list[str]:
    """The lines of a window, as a terminal without colours shows them."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, color_system=None, legacy_windows=False)
    top.resize(rows_in(height))
    console.print(screen(top, "beanstalk://127.0.0.1:11300", width, height))
    return file.getvalue().split("\n")[:-1]


def busy() -> TopSample:
    """A sample of a server with something to see."""
    stats = server(
        current_jobs_ready=900,
        current_jobs_urgent=3,
        current_jobs_buried=1,
        current_connections=1,
        current_workers=12,
        job_timeouts=7,
        binlog_records_written=1234,
    )
    rows = [
        row("mail", current_jobs_ready=900, put_rate=12.5, delete_rate=0.0, next_job=job(age=125)),
        row("reports", current_jobs_buried=1, current_waiting=2, pause=60, pause_time_left=59),
    ]
    return top_sample(*rows, stats=stats, rates=CommandRates(12.5, 3.0, 0.0, 0.5))


def busy_top() -> Top:
    """A view of it."""
    top = Top()
    top.show(busy())
    return top


@pytest.fixture
def top() -> Top:
    return busy_top()


def test_numbers_that_the_user_may_not_see_are_left_out() -> None:
    top = Top()
    hidden = server(current_connections=2, total_connections=0, binlog_current_index=0)
    top.show(top_sample(row("mail", current_jobs_ready=3), stats=hidden))
    head = "\n".join(drawn(top)[:6])
    assert "the numbers of the whole server need stats = true" in head
    assert "2 connections of this user" in head
    for wrong in ("ready 0", "0 workers", "in memory only", "jobs put"):
        assert wrong not in head


def test_everything_is_there(top: Top) -> None:
    text = "\n".join(drawn(top))
    for part in (
        "beanpole 0.1.0  beanstalk://127.0.0.1:11300  up 1d01h  pid 7 on host",
        "ready 900 (3 urgent)   reserved 0   delayed 0   buried 1",
        "put          12/s",
        "1 connection: 0 producers, 12 workers, 0 waiting",
        "timeouts 0.5/s, 7 in all",
        "log: synced always, 2 files of 10 MiB, 1 234 records",
        "READY▼",
        "q quit",
        "2 tubes",
    ):
        assert part in text
    mail = next(line for line in text.split("\n") if line.startswith(" mail"))
    assert mail.split() == ["mail", "900", "0", "0", "0", "0", "0", "12", "0", "2m05s", "-"]
    assert next(line for line in text.split("\n") if line.startswith(" reports")).split()[-1] == "59s"


def test_how_long_jobs_waited_and_ran() -> None:
    top = Top()
    stats, waits = server(current_jobs_ready=5), Quantiles(0.0012, 42.5)
    rows = [
        row(
            "mail",
            current_jobs_ready=5,
            oldest_ready=3700,
            waits=Quantiles(0.00025, 0.035),
            runs=Quantiles(2.5, 40.0),
            put_rate=0.0,
            delete_rate=0.0,
        ),
        row("idle", oldest_ready=0, put_rate=0.0, delete_rate=0.0),
    ]
    top.show(replace(top_sample(*rows, stats=stats), waits=waits, runs=Quantiles(2.5, 40.0), timed=True))
    lines = drawn(top, 140)
    assert any("p50 1.2ms  p99 42s  run99 40s" in line for line in lines)
    mail, idle = (next(line for line in lines if line.startswith(name)) for name in (" mail", " idle"))
    assert mail.split()[-6:] == ["250µs", "35ms", "2.5s", "40s", "1h01m", "-"]
    assert idle.split()[-6:] == ["-"] * 6
    assert "P99" not in "".join(drawn(busy_top())), "a server that does not say has no such columns"


def test_beanstalkd_without_a_log() -> None:
    top = Top()
    top.show(top_sample(stats=server(ours=False, binlog_current_index=0, hostname='""', draining="true")))
    text = "\n".join(drawn(top))
    assert "beanstalkd 1.13  beanstalk://127.0.0.1:11300  up 1d01h  pid 7  DRAINING" in text
    assert "no log: jobs are in memory only" in text
    assert "no tube yet" in text


def test_cluster() -> None:
    top = Top()
    top.show(top_sample(stats=server(**{**CLUSTER, "cluster_lag": 1234}, durability="quorum")))
    assert "cluster: leader of epoch 7, quorum, 1 234 bytes to be confirmed" in "\n".join(drawn(top))


def test_tube_alone(top: Top) -> None:
    """All that the columns say, also those that have no place in the window, and the first job in each state."""
    top.press("enter")
    heads = {"ready": (5, job(id=12, pri=7, age=125)), "delayed": (1, job(id=3, state="delayed", age=5, time_left=60))}
    top.show(replace(busy(), heads=heads))
    lines = drawn(top, 80, 23)
    assert lines[6].strip() == "mail"
    ready, delayed = (next(line for line in lines if line.startswith(name)) for name in (" READY", " DELAYED"))
    assert ready.split()[:2] == ["READY", "900"]
    assert ready.endswith("first: job 12, 5 bytes, pri 7, 2m05s old")
    assert delayed.endswith("5s old, ready in 1m00s")
    assert all(any(line.startswith(f" {each.title} ") for line in lines) for each in COLUMNS[1:] if not each.timed)
    assert "Esc: back" in lines[-1]
    groups = [
        GroupStats("acme", 1, 7, 2, 0, 0, 1, 0.5, ["group-rate"], 0),
        GroupStats("\x9b", 1, 1, 0, 0, 0, 2, 0.5, [], 0),
        GroupStats("", 1, 0, 1, 0, 0, None, None, [], 0),
    ]
    top.show(replace(busy(), groups=groups))
    assert [line.split(maxsplit=2) for line in drawn(top) if line.startswith(" GROUP")] == [
        ["GROUP", "7", "acme: 2 reserved, closed by group-rate"],
        ["GROUP", "1", r"\x9b: 0 reserved"],
        ["GROUP", "0", "no group: 1 reserved"],
    ]
    top.show(top_sample(row("other")))
    assert "  the tube is gone" in [line.rstrip() for line in drawn(top)]


@pytest.mark.parametrize("width", [1, 7, 20, 40, 80, 120, 300])
@pytest.mark.parametrize("height", [1, 3, 9, 24, 60])
@pytest.mark.parametrize("keys", ["", "?", "/xy", "k", "p1", "\n"])
def test_window_is_filled_and_never_overfilled(top: Top, width: int, height: int, keys: str) -> None:
    top.show(top_sample(*(row(f"tube-with-a-long-name-{i}" * 4, current_jobs_buried=1) for i in range(50))))
    for key in keys:
        top.press("enter" if key == "\n" else key)
    lines = drawn(top, width, height)
    assert len(lines) == height
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_foot_is_whole_and_says_what_is_filtered(top: Top, width: int) -> None:
    top.show(top_sample(row("mails"), row("reports"), stats=server(current_tubes=2)))
    for key in ("/", *"mail", "enter"):
        top.press(key)
    foot = drawn(top, width, 24)[-1]
    assert foot.rstrip().endswith("1 tube with 'mail' of 2")
    assert "? help" in foot
    assert "q quit" in foot
    assert "…" not in foot


def test_columns_that_matter_stay() -> None:
    assert list(fitting(200, timed=True)) == list(COLUMNS)
    assert {column.title for column in COLUMNS} - {column.title for column in fitting(200, timed=False)} == {
        "P50",
        "P99",
        "RUN50",
        "RUN99",
    }
    assert [column.title for column in fitting(40, timed=True)] == ["TUBE", "READY", "RESERVED"]
    assert [column.title for column in fitting(5, timed=True)] == ["TUBE"]


def test_before_the_first_answer() -> None:
    assert any("asking the server" in line for line in drawn(Top()))


def test_lost_connection_is_told_and_the_old_table_stays(top: Top) -> None:
    top.problem = "lost the connection, trying again"
    lines = drawn(top)
    assert lines[0].strip() == "lost the connection, trying again"
    assert any(line.startswith(" mail") for line in lines)


def test_prompts_say_what_they_are_about(top: Top) -> None:
    top.press("down")
    top.press("k")
    assert "Kick how many of the 1 buried jobs of reports?" in drawn(top)[-1]
    top.press("escape")
    top.press("p")
    top.press("7")
    assert "Pause reports for how many seconds? 7" in drawn(top)[-1]
    top.press("escape")
    for key in "/nothing":
        top.press(key)
    assert "Tubes with: nothing" in drawn(top)[-1]
    assert any("no tube has 'nothing' in its name" in line for line in drawn(top))


def test_what_came_of_an_order_takes_the_place_of_the_keys(top: Top) -> None:
    top.message = "kicked 2 of mail"
    assert drawn(top)[-1].strip() == "kicked 2 of mail"


def test_tubes_that_were_not_asked_are_counted(top: Top) -> None:
    whole = busy()
    top.show(TopSample(0, whole.server, None, whole.rows, 5000))
    assert "4 998 not asked yet" in drawn(top)[-1]


def test_help_fits_a_small_terminal(top: Top) -> None:
    top.press("?")
    lines = drawn(top, 80, 24)
    assert not [line for line in lines if "…" in line]
    assert COLUMNS[-1].help in lines[-2]


def test_on_paper_there_is_no_selection() -> None:
    file = io.StringIO()
    top = Top(height=10**9)
    top.show(busy())
    Console(file=file, width=100, color_system=None).print(plain(top, "somewhere", 100))
    assert "reports" in file.getvalue()
    assert "quit" not in file.getvalue()


def test_title_of_every_column_has_a_space_before_it() -> None:
    assert all(len(column.title) < column.width for column in COLUMNS[1:]), "the arrow takes a character"


def test_the_shards_of_a_map_stand_beside_its_tubes_and_those_that_are_away_in_the_title() -> None:
    top = Top()
    stats = server(shards=3, shards_missing=1, shards_away="c")
    top.show(top_sample(row("mail", current_jobs_ready=1, shards="a, b"), row("push", shards="b"), stats=stats))
    lines = drawn(top)
    assert "3 shards, AWAY: c" in lines[0]
    assert lines[7].startswith(" mail [a, b] ")
    assert lines[8].startswith(" push [b] ")
