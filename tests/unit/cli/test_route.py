"""`beanpole route`, as far as it can be told in its own process."""

import sys

import pytest
from click.testing import CliRunner

from beanpole.cli.route import route
from tests.servers import HOST

WIRE = "beanpole.front.tlswire"


def test_what_a_link_with_tls_needs_is_loaded_before_it_becomes_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def become(_name: str) -> None:
        loaded.append(WIRE in sys.modules)
        raise SystemExit

    monkeypatch.delitem(sys.modules, WIRE, raising=False)
    monkeypatch.setattr("beanpole.cli.route.bind", lambda *_: ([], []))
    monkeypatch.setattr("beanpole.server.process.become_user", become)
    CliRunner().invoke(route, ["--to", HOST, "-u", "nobody"])
    assert loaded == [True]
