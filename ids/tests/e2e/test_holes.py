"""Every way that is known in which lxyfirst/id_server repeats or skips numbers, and what would have shown it.

`HOLES` has an entry for each, and the tests for it. Those that no other file has are here: on a process whose clock
jumps.
"""

import ast
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.databases import Database
from tests.e2e.clocked import set_clock
from tests.e2e.process import hammer, running
from tests.processes import wait_until

TESTS = Path(__file__).parents[1]

HOLES = {
    1: ("the maximum inside a cycle wraps", "e2e/test_ids.py::test_exhausted_says_so"),
    2: (
        "a number is answered before its range is durable",
        "unit/test_service.py::test_no_number_before_its_range_is_durable",
        "e2e/test_databases.py::test_kill_repeats_nothing",
    ),
    3: ("the database is down, and numbers go on", "e2e/test_databases.py::test_killed_database"),
    4: ("the database is back, and nothing is saved yet", "e2e/test_databases.py::test_killed_database"),
    5: ("what could not be saved is lost with a stop", "e2e/test_databases.py::test_killed_database"),
    6: ("a crash after a cycle has begun", "e2e/test_holes.py::test_crash_after_midnight"),
    7: ("date and counter come from two readings of the clock", "e2e/test_holes.py::test_midnight_under_load"),
    8: ("cycles follow standard time", "e2e/test_holes.py::test_summer_time"),
    9: ("what is saved lies above the maximum", "e2e/test_holes.py::test_crashes_of_a_small_range"),
    10: (
        "names that differ in case have one row",
        "e2e/test_holes.py::test_names_after_a_crash",
        "unit/storage/test_store.py::test_names_are_bytes",
    ),
    11: ("names that can't be saved", "e2e/test_holes.py::test_names_after_a_crash"),
    12: (
        "two processes of one node",
        "e2e/test_databases.py::test_second_process_is_refused",
        "e2e/test_databases.py::test_owner_of_a_lost_node_ends",
    ),
    13: (
        "a node is added",
        "e2e/test_databases.py::test_node_that_is_added_repeats_nothing",
        "unit/storage/test_store_servers.py::test_two_that_start_at_once_with_different_steps",
    ),
    14: (
        "a step above 127 counts down, and an offset beyond the step repeats one number",
        "unit/rules/test_sequence.py::test_step_above_127_counts_up",
        "unit/rules/test_reader.py::test_step_and_offset_must_be_in_range",
    ),
    15: (
        "numbers and times of 32 bits",
        "unit/rules/test_sequence.py::test_numbers_and_times_beyond_32_bits",
        "unit/storage/test_store.py::test_numbers_and_times_beyond_32_bits",
    ),
    16: ("a reload lowers the maximum", "e2e/test_ids.py::test_reload_is_all_or_nothing"),
    17: ("the clock jumps", "e2e/test_holes.py::test_clock_that_jumps"),
    18: ("a graceful stop loses the reserve", "e2e/test_databases.py::test_graceful_stop_leaves_no_gap"),
    19: (
        "a reply is lost, or a rule fails after it took a number",
        "e2e/test_ids.py::test_request_id_gets_the_same_number_again",
        "unit/test_service.py::test_lua_that_takes_two_and_one_that_fails_after_one",
    ),
    20: (
        "a rule leaves out its counter or its date",
        "unit/rules/test_reader.py::test_rule_is_refused_with_the_reason",
        "unit/rules/test_reader.py::test_lua_is_refused_with_the_reason",
    ),
    21: ("an empty datagram closes the socket", "e2e/test_ids.py::test_never_deaf"),
    22: ("anyone makes names without end", "unit/test_names.py::test_stranger_makes_no_new_name_without_a_cookie"),
    23: ("a long error of a rule overflows a buffer", "e2e/test_holes.py::test_long_error_of_a_rule"),
}

MIDNIGHT_S = 1_798_754_400
"""31 December 2026, 22:00 in UTC and 23:00 in Berlin: seconds from here on are written as `MIDNIGHT_S + 3600`."""

RULES = """
listen = "127.0.0.1:0"
database = "{database}"
clock_ahead_s_max = {ahead}
time_zone = "{zone}"

[[rule]]
name = "order"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:06}}"
cycle = "day"

[[rule]]
name = "hour"
template = "{{year:02}}{{month:02}}{{day:02}}{{hour:02}}{{counter:06}}"
cycle = "hour"

[[rule]]
name = "small"
template = "{{counter:02}}"
maximum = 20
batch = 100

[[rule]]
name = "talks"
lua = "talks.lua"
"""

TALKS = """
function min_counter() return 0 end
function max_counter() return 99 end
function reset_seconds() return 0 end
function create_id(counter, now, salt)
    local number = counter:generate_counter()
    if salt ~= "" then error(("x"):rep(tonumber(salt))) end
    return number
end
"""


def configure(folder: Path, *, database: str = "sqlite:///ids.db", zone: str = "UTC", ahead: int = 10**9) -> Path:
    """The configuration, and a clock."""
    (folder / "rules.toml").write_text(RULES.format(database=database, zone=zone, ahead=ahead))
    (folder / "talks.lua").write_text(TALKS)
    set_clock(folder, 0)
    return folder / "rules.toml"


def set_time(folder: Path, now_s: float) -> None:
    """Sets the clock of the service."""
    set_clock(folder, now_s - time.time())


def test_each_hole_has_its_tests() -> None:
    assert list(HOLES) == list(range(1, 24))
    for number, (_, *names) in HOLES.items():
        for name in names:
            path, _, function = name.partition("::")
            tree = ast.parse((TESTS / path).read_text())
            assert function in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, (number, name)


def test_crash_after_midnight(tmp_path: Path) -> None:
    config = configure(tmp_path)
    given: list[str] = []
    for day in range(3):
        set_time(tmp_path, MIDNIGHT_S + 86_400 * day)
        for _ in range(2):
            with running(tmp_path, config, has_own_clock=True) as service:
                given.append(service.ask()["data"])
                if not day:
                    set_time(tmp_path, MIDNIGHT_S + 7_300)
                    given.append(service.ask()["data"])
                service.end(signal.SIGKILL)
    assert len(set(given)) == len(given) == 8
    assert {each[:7] for each in given} == {"O261231", "O270101", "O270102"}


def test_midnight_under_load(tmp_path: Path) -> None:
    """In the original, one of thirty boundaries gave a number of the new cycle with the old date."""
    config = configure(tmp_path)
    set_time(tmp_path, MIDNIGHT_S)
    with running(tmp_path, config, has_own_clock=True) as service:
        hours = 0

        def move_clock(numbers: list[str]) -> bool:
            """Lets an hour end in a millisecond, while many requests are under way."""
            nonlocal hours
            if len(numbers) % 50 == 0:
                hours += 1
                set_time(tmp_path, MIDNIGHT_S + 3_600 * hours - 0.001)
            return hours < 100

        given = hammer(service, move_clock, "hour")
    assert len({each[:8] for each in given}) >= 40, "hardly an hour ended while requests were under way"
    assert len(set(given)) == len(given)
    assert sorted(given) == given, "one client at a time: time and counters go forward"


@pytest.mark.parametrize(
    ("zone", "begins"),
    [
        ("Europe/Berlin", "2026-07-01T21:30:00Z"),  # an hour in which the date is new and standard time's is not
        ("Europe/Berlin", "2026-10-24T21:30:00Z"),  # the night in which an hour comes twice
        ("Europe/Berlin", "2027-03-27T22:30:00Z"),  # and that in which one is left out
        ("America/Havana", "2026-11-01T03:30:00Z"),  # here it is the hour after midnight
    ],
)
def test_summer_time(tmp_path: Path, zone: str, begins: str) -> None:
    config = configure(tmp_path, zone=zone)
    now_s = datetime.fromisoformat(begins).timestamp()
    set_time(tmp_path, now_s)
    given: list[str] = []
    with running(tmp_path, config, has_own_clock=True) as service:
        for quarter in range(24):
            set_time(tmp_path, now_s + 900 * quarter)
            for rule in ("order", "hour"):
                given += service.ask(rule_name=rule, count=3)["data"]
    assert len(set(given)) == len(given) == 144


def test_crashes_of_a_small_range(tmp_path: Path) -> None:
    config = configure(tmp_path)
    given: list[str] = []
    for _ in range(3):
        with running(tmp_path, config, has_own_clock=True) as service:
            while (reply := service.ask(rule_name="small"))["code"] == 0:
                given.append(reply["data"])
                if len(given) == 5:
                    break
            service.end(signal.SIGKILL)
    assert given == ["00", "01", "02", "03", "04"], "the rest was reserved, and is lost"
    assert reply["code"] == -2


def test_names_after_a_crash(database: Database, tmp_path: Path) -> None:
    """Also those that the original could not save, or took for one."""
    config = configure(tmp_path, database=database.url)
    names = [
        "Case",
        "CASE",
        "case",
        "x\\",
        "\\",
        "a;--",
        "é" * 120,
        "x" * 64,
        "x" * 65,
        "x" * 255,
        "😀",
        "",
        "ß",
        "ss",
    ]
    given: dict[str, list[str]] = {name: [] for name in names}
    for _ in range(2):
        with running(tmp_path, config, has_own_clock=True) as service:
            for name in names:
                given[name] += [service.ask(app_name=name)["data"], service.ask(app_name=name)["data"]]
            service.end(signal.SIGKILL)
    for name, numbers in given.items():
        assert len(set(numbers)) == 4, name
        assert numbers[1].endswith("000001"), name


def test_clock_that_jumps(tmp_path: Path) -> None:
    """Back, ahead, and in between a crash: no date comes twice with the same number, and none too early unasked."""
    config = configure(tmp_path, ahead=3_600)
    given: list[str] = []
    set_time(tmp_path, MIDNIGHT_S)
    with running(tmp_path, config, has_own_clock=True) as service:
        given.append(service.ask()["data"])
        set_time(tmp_path, MIDNIGHT_S + 10 * 86_400)
        reply = service.ask()
        assert (reply["code"], "reload to accept it" in reply["message"]) == (-4, True)
        service.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: service.ask(app_name="b")["code"] == 0, "the clock is accepted")
        given.append(service.ask()["data"])
        set_time(tmp_path, MIDNIGHT_S)
        given.append(service.ask()["data"])
        service.end(signal.SIGKILL)
    for _ in range(2):
        with running(tmp_path, config, has_own_clock=True) as service:
            given += [service.ask()["data"], service.ask()["data"]]
            service.end(signal.SIGKILL)
    assert len(set(given)) == len(given) == 7
    assert [each[:7] for each in given] == ["O261231", *["O270110"] * 6]


def test_reload_and_the_clock(tmp_path: Path) -> None:
    """Only a reload that is not refused accepts a clock, says so, and takes over how far it may jump."""
    config = configure(tmp_path, ahead=3_600)
    whole = config.read_text()
    set_time(tmp_path, MIDNIGHT_S)
    with running(tmp_path, config, has_own_clock=True) as service:

        def reload(text: str, outcome: str) -> None:
            config.write_text(text)
            count = service.messages().count(outcome)
            service.popen.send_signal(signal.SIGHUP)
            wait_until(lambda: service.messages().count(outcome) > count, outcome)

        assert service.ask()["code"] == 0
        set_time(tmp_path, MIDNIGHT_S + 10_000)
        for bad in ("bad[", whole.replace("database", "step = 2\ndatabase")):
            reload(bad, "reload refused")
            assert service.ask()["code"] == -4
        reload(whole.replace("3600", "20000"), '"reloaded"')
        assert service.ask()["code"] == 0, "that is within the new limit"
        assert "clock accepted" not in service.messages()
        reload(whole.replace("3600", "100"), '"reloaded"')
        set_time(tmp_path, MIDNIGHT_S + 11_000)
        assert service.ask()["code"] == -4
        reload(whole, '"reloaded"')
        assert service.ask()["code"] == 0
        assert "clock accepted" not in service.messages()
        set_time(tmp_path, MIDNIGHT_S + 86_400)
        assert service.ask()["code"] == -4
        reload(whole, "clock accepted")
        assert '"ahead_s": 75' in service.messages() or '"ahead_s":75' in service.messages()
        assert service.ask()["code"] == 0


@pytest.mark.parametrize("size", [100, 5_000, 200_000])
def test_long_error_of_a_rule(tmp_path: Path, size: int) -> None:
    with running(tmp_path, configure(tmp_path), has_own_clock=True) as service:
        reply = service.ask(rule_name="talks", salt=str(size))
        assert reply["code"] == -1
        assert reply["message"].startswith("system error")
        assert service.ask(rule_name="talks")["data"] == "0"
