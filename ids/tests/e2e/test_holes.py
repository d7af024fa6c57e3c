"""Every way that is known in which lxyfirst/id_server repeats or skips numbers, and what would have shown it.

`HOLES` has an entry for each, and the tests for it. Those that no other file has are here: on a process whose clock
jumps.
"""

import ast
import signal
import time
from pathlib import Path

from tests.e2e.clocked import set_clock
from tests.e2e.process import hammer, running
from tests.processes import wait_until

TESTS = Path(__file__).parents[1]

HOLES = {
    1: ("the maximum inside a cycle wraps", "unit/test_service.py::test_replies_byte_by_byte"),
    2: (
        "a number is answered before its range is durable",
        "unit/test_service.py::test_no_number_before_its_range_is_durable",
        "e2e/test_databases.py::test_kill_repeats_nothing",
    ),
    3: ("the database is down, and numbers go on", "e2e/test_databases.py::test_killed_database"),
    4: ("the database is back, and nothing is saved yet", "e2e/test_databases.py::test_killed_database"),
    5: ("what could not be saved is lost with a stop", "e2e/test_databases.py::test_killed_database"),
    6: ("a crash after a cycle has begun", "unit/rules/test_sequence.py::test_cycle_begins_with_a_reservation"),
    7: ("date and counter come from two readings of the clock", "e2e/test_holes.py::test_midnight_under_load"),
    8: ("cycles follow standard time", "unit/rules/test_cycle.py::test_cycle_follows_local_time"),
    9: (
        "what is saved lies above the maximum",
        "unit/rules/test_sequence.py::test_restart_at_the_end_of_a_small_range_does_not_wrap",
    ),
    10: ("names that differ in case have one row", "unit/storage/test_store.py::test_names_are_bytes"),
    11: ("names that can't be saved", "unit/storage/test_store.py::test_names_are_bytes"),
    12: (
        "two processes of one node",
        "e2e/test_databases.py::test_second_process_is_refused",
        "e2e/test_databases.py::test_owner_of_a_lost_node_ends",
    ),
    13: (
        "a node is added",
        "unit/storage/test_store.py::test_node_that_is_added_repeats_nothing",
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
    17: (
        "the clock jumps",
        "e2e/test_holes.py::test_reload_and_the_clock",
        "unit/rules/test_sequence.py::test_clock_back_over_midnight_stays_in_the_cycle",
    ),
    18: ("a graceful stop loses the reserve", "e2e/test_databases.py::test_graceful_stop_leaves_no_gap"),
    19: (
        "a reply is lost, or a rule fails after it took a number",
        "unit/test_service.py::test_request_id_belongs_to_the_address_that_sent_it",
        "unit/test_service.py::test_lua_that_takes_two_and_one_that_fails_after_one",
    ),
    20: (
        "a rule leaves out its counter or its date",
        "unit/rules/test_reader.py::test_rule_is_refused_with_the_reason",
        "unit/rules/test_reader.py::test_lua_is_refused_with_the_reason",
    ),
    21: ("an empty datagram closes the socket", "e2e/test_ids.py::test_never_deaf"),
    22: ("anyone makes names without end", "unit/test_names.py::test_stranger_makes_no_new_name_without_a_cookie"),
    23: (
        "a long error of a rule overflows a buffer",
        "unit/rules/test_reader.py::test_lua_error_while_making_is_an_answer",
    ),
}

MIDNIGHT_S = 1_798_754_400
"""31 December 2026, 22:00 in UTC and 23:00 in Berlin: seconds from here on are written as `MIDNIGHT_S + 3600`."""

RULES = """
listen = "127.0.0.1:0"
database = "sqlite:///ids.db"
clock_ahead_s_max = {ahead}

[[rule]]
name = "order"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:06}}"
cycle = "day"

[[rule]]
name = "hour"
template = "{{year:02}}{{month:02}}{{day:02}}{{hour:02}}{{counter:06}}"
cycle = "hour"
"""


def configure(folder: Path, ahead: int = 10**9) -> Path:
    (folder / "rules.toml").write_text(RULES.format(ahead=ahead))
    set_clock(folder, 0)
    return folder / "rules.toml"


def set_time(folder: Path, now_s: float) -> None:
    set_clock(folder, now_s - time.time())


def test_each_hole_has_its_tests() -> None:
    assert list(HOLES) == list(range(1, 24))
    for number, (_, *names) in HOLES.items():
        for name in names:
            path, _, function = name.partition("::")
            tree = ast.parse((TESTS / path).read_text())
            assert function in {
                each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }, (number, name)


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
