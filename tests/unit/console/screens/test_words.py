"""Sentences of the server as pages write them."""

import pytest

from beanpole.console.screens import words


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("it is ready in 5.25 s, after attempt 2", "it is ready in 5.2s, after attempt 2"),
        ("the tube is paused for 86222.1 s more", "the tube is paused for 23h57m more"),
        (
            'by session 7 ("job 5 s \\" 6 s"), last heard of 0 s ago',
            'by session 7 ("job 5 s \\" 6 s"), last heard of 0s ago',
        ),
        ("3 sessions wait, but for other tubes", "3 sessions wait, but for other tubes"),
    ],
)
def test_times_in_sentences_are_written_as_all_times(said: str, written: str) -> None:
    assert words.sentence(said) == written
