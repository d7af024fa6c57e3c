"""A moment of each soak of a queue, so that they still run when somebody needs them."""

from pathlib import Path

import hypothesis

from beanpole.testing.world import START_NS
from tests.model.conversation import converse
from tests.soak import kills
from tests.soak.clock import Clock
from tests.soak.model import RealConversation


def test_kills_lose_nothing(tmp_path: Path) -> None:
    assert kills.run(1, tmp_path / "log", Clock(tmp_path, START_NS), kills=2) > 100


def test_server_answers_as_the_model(tmp_path: Path) -> None:
    RealConversation.clock = Clock(tmp_path, START_NS)
    converse(hypothesis.seed(1)(RealConversation), 2)
    assert RealConversation.command_count > 100
