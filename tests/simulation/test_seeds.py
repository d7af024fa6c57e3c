"""Hundreds of seeded runs; `tests/seeds.py` says which. `SIMULATION_SEED=n` runs one of them again.

The runs are shared out among the tests below, so that one that hangs is found.
"""

import os

import pytest

from tests.seeds import seeds
from tests.simulation.simulation import simulate

SEED = os.environ.get("SIMULATION_SEED")
SEEDS = seeds(200, "SIMULATION_SEED")
BLOCKS = 4


@pytest.mark.skipif(SEED is not None, reason="one seed is wanted")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_crashes_at_random_moments_lose_nothing_that_was_promised(block: int) -> None:
    for seed in SEEDS[block::BLOCKS]:
        simulate(seed)


@pytest.mark.skipif(SEED is not None, reason="one seed is wanted")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_crashes_lose_nothing_that_extensions_promised(block: int) -> None:
    for seed in SEEDS[block : len(SEEDS) // 2 : BLOCKS]:
        simulate(seed, extensions=True)


@pytest.mark.skipif(SEED is not None, reason="one seed is wanted")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_crashes_lose_no_rules_and_no_limit_holds_back_what_it_should_not(block: int) -> None:
    for seed in SEEDS[block : len(SEEDS) // 4 : BLOCKS]:
        simulate(seed, extensions=seed % 2 == 1, limits=True)


@pytest.mark.skipif(SEED is not None, reason="one seed is wanted")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_crashes_neither_lose_nor_double_what_a_schedule_fires(block: int) -> None:
    fires = 0
    for seed in SEEDS[block : len(SEEDS) // 2 : BLOCKS]:
        simulation = simulate(seed, with_schedules=True)
        fires += simulation.schedules.fire_count if simulation.schedules is not None else 0
    assert fires, "no schedule has fired"


@pytest.mark.skipif(SEED is not None, reason="one seed is wanted")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_crashes_let_jobs_wait_for_who_has_a_token_and_for_nobody_else(block: int) -> None:
    found = 0
    for seed in SEEDS[block : len(SEEDS) // 2 : BLOCKS]:
        simulation = simulate(seed, keeps=True, extensions=seed % 2 == 1, limits=seed % 4 > 1)
        found += simulation.keeping.found_count if simulation.keeping is not None else 0
    assert found, "no job has waited over a crash"


@pytest.mark.skipif(SEED is None, reason="set SIMULATION_SEED to run one seed again")
def test_seed() -> None:
    seed = int(SEED or "0")
    for extensions in (False, True):
        simulate(seed, extensions=extensions)
    simulate(seed, with_schedules=True)
    simulate(seed, keeps=True, extensions=seed % 2 == 1, limits=seed % 4 > 1)
    simulate(seed, extensions=seed % 2 == 1, limits=True)
