"""The defaults of a server are beanstalkd's."""

import dataclasses

import pytest

from beanpole.server.settings import Settings


def test_defaults_are_those_of_beanstalkd() -> None:
    settings = Settings()
    assert (settings.port, settings.body_bytes_max, settings.listen, settings.user) == (11300, 65535, (), None)
    assert not settings.one_reply_per_send


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]
