"""The engine and the reference model, in conversations that Hypothesis invents."""

import hypothesis

from tests.model.conversation import Conversation, converse
from tests.seeds import seeds

SEEDS = seeds(80, "MODEL_SEED")
"""Of these the first is the seed of the conversations, and there are as many."""


def test_engine_answers_as_the_model() -> None:
    converse(hypothesis.seed(SEEDS[0])(Conversation), len(SEEDS))
