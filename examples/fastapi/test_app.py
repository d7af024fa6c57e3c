"""The application's tests: the client that FastAPI has for them, and an empty queue for each test."""

import app
import pytest
from fastapi.testclient import TestClient

from beanpole.testing import FakeServer


def test_a_picture_is_made_smaller(
    beanpole_server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Put a job by a request; the worker of the application does it."""
    monkeypatch.setattr(app.worker, "address", beanpole_server.url)
    with TestClient(app.app) as client:
        assert client.post("/pictures/cat.png?width=64").json() == {"job": 1}
        beanpole_server.join("thumbnails")
    assert beanpole_server.jobs() == []
    assert "cat.png is 64 wide" in capsys.readouterr().out
