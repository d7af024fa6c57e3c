"""A machine that sleeps: its clock is ahead when it wakes, and that is no jump."""

import time
from pathlib import Path

from beanpole_ids.app import since_boot_s
from tests.e2e.clocked import set_clock
from tests.e2e.process import running, write_rules

DAY_S = 86_400


def test_sleep_is_no_jump_of_the_clock(tmp_path: Path) -> None:
    """Numbers were refused until a reload, as the clock that it is compared with slept too."""
    config = write_rules(tmp_path)
    set_clock(tmp_path, 0)
    with running(tmp_path, config, has_own_clock=True) as service:
        days = [service.ask()["data"][:7]]
        for nights in range(1, 3):
            set_clock(tmp_path, 0, slept_s=nights * DAY_S)
            days.append(service.ask()["data"][:7])
        assert len(set(days)) == 3, "each night's sleep ends on another day"
        set_clock(tmp_path, DAY_S, slept_s=2 * DAY_S)
        assert service.ask()["message"].startswith("clock: it has jumped ahead by 86")


def test_clock_that_goes_on_while_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= since_boot_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)
