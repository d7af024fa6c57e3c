"""The engine and the reference model, in conversations that Hypothesis invents."""

import os

from tests.model.conversation import Conversation, converse

CONVERSATIONS = int(os.environ.get("BEANPOLE_CONVERSATIONS", "350"))
"""How many conversations one run of the tests invents: some ten seconds. Set the variable for a longer search."""


def test_engine_answers_as_the_model() -> None:
    converse(Conversation, CONVERSATIONS)
