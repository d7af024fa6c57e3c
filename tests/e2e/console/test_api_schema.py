"""The API does what its openapi.json says, whatever it is asked."""

import pytest

from beanpole.console.api.table import OPERATIONS
from tests.e2e.console.fuzzing import THERE, fuzz, world


@pytest.mark.long
@pytest.mark.parametrize("config", ["", THERE], ids=["anything", "what is there"])
def test_the_api_keeps_to_its_own_description(config: str) -> None:
    with world() as served:
        done = fuzz(served, "--phases=fuzzing", "--max-examples=3", "--generation-deterministic", config=config)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"Tested: {len(OPERATIONS)}\n" in done.stdout
        said = done.stdout.replace(f":{served.port}/", "/")  # which may have these digits
        assert not config or "404" not in said, done.stdout
