"""Answers that take a while to make: how many at a time, and whose."""

import asyncio
import itertools
import time
from collections import Counter
from pathlib import Path

from beanpole_ids import limits
from beanpole_ids.http.head import Asked
from tests.unit.http.test_routes import MARKED, Api

GIVE_UP_S = 60.0


def test_pages_are_made_one_at_a_time_and_for_sources_in_turn(tmp_path: Path) -> None:
    """A hundred pages of metrics were made before the event loop did other work: half a second."""

    async def main() -> None:
        api = Api(tmp_path)
        found: list[tuple[str, int]] = []
        targets = itertools.cycle(("/metrics", "/v1/rules", "/v1/rules/day", "/v1/counters/day"))

        def ask(source: str) -> None:
            asked = Asked("GET", next(targets), MARKED, b"", source)
            api.routes.handle(asked, lambda response: found.append((source, response.status)))

        crowd = limits.HTTP_PAGES_WAITING_MAX + 10
        for _ in range(crowd):
            ask("192.0.2.1")
        ask("192.0.2.2")
        seen = 0
        give_up_at = time.monotonic() + GIVE_UP_S
        while len(found) < crowd + 1:
            await asyncio.sleep(0)
            made = [each for each in found if each[1] == 200]
            assert len(made) <= seen + 1
            seen = len(made)
            assert time.monotonic() < give_up_at, "some are not answered"
        assert found.index(("192.0.2.2", 200)) < 15, "refusals of nine come first"
        assert Counter(found) == {
            ("192.0.2.1", 200): limits.HTTP_PAGES_WAITING_MAX + 1,
            ("192.0.2.1", 503): 9,
            ("192.0.2.2", 200): 1,
        }
        assert (await api.get("/metrics")).status == 200, "it begins again"
        api.keeper.cancel()

    asyncio.run(main())


def test_page_that_fails_ends_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        api = Api(tmp_path)
        asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
        found: list[int] = []

        async def fail() -> bytes:
            raise ZeroDivisionError

        api.routes.metrics = fail
        for target in ("/metrics", "/v1/rules", "/metrics", "/v1/rules"):
            api.routes.handle(Asked("GET", target, MARKED), lambda response: found.append(response.status))
        for _ in range(100):
            await asyncio.sleep(0)
        assert found == [500, 200, 500, 200]
        api.keeper.cancel()

    asyncio.run(main())
