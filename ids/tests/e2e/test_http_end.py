"""How HTTP ends: with the node's loss, with a database that hangs, with clients in the middle of something."""

import contextlib
import http.client
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa

from tests.e2e.http import Web, web
from tests.e2e.test_http import execute
from tests.processes import REPLY_TIMEOUT_S, STOP_TIMEOUT_S, wait_until


def test_owner_of_a_lost_node_tells_who_waits_and_ends(tmp_path: Path) -> None:
    with web(tmp_path) as api:
        execute(api, "UPDATE beanpole_ids_node SET epoch = epoch + 1")
        with contextlib.suppress(OSError, http.client.HTTPException):  # it may have found the loss by itself
            found = api.get("/v1/ids/order/new")
            assert (found.status, found.json()["type"]) == (503, "/docs#storage")
        assert api.service.popen.wait(STOP_TIMEOUT_S) == 10


def test_request_that_waits_for_the_database_is_answered_before_the_end(tmp_path: Path) -> None:
    with web(tmp_path) as api:
        api.get("/v1/ids/order/a")
        engine = sa.create_engine(f"sqlite:///{tmp_path}/ids.db")
        with ThreadPoolExecutor(1) as pool:
            with engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # the database is somebody else's for now
                asked = pool.submit(api.get, "/v1/ids/order/b")
                wait_until(lambda: waiting(api) == 1, "the request waits")
                api.service.popen.send_signal(signal.SIGTERM)
                wait_until(lambda: not accepts(api), "no connection is accepted")
                connection.rollback()
            found = asked.result(REPLY_TIMEOUT_S)
        engine.dispose()
        # Which of the two happens depends on what was under way when the signal came.
        given = found.json().get("ids", [])
        assert [each[7:] for each in given] == ["000000"] or found.json()["detail"] == "storage: stopping"
        assert found.fields["connection"] == "close"
        assert api.service.popen.wait(STOP_TIMEOUT_S) == 0
    with web(tmp_path, config=tmp_path / "rules.toml") as api:
        assert int(api.get("/v1/ids/order/b").json()["ids"][0][7:]) == len(given), "there is no gap"


def waiting(api: Web) -> int:
    """How many requests wait for the database."""
    text = api.get("/metrics").body.decode()
    return int(float(text.partition("\nbeanpole_ids_waiting_requests ")[2].partition("\n")[0]))


def accepts(api: Web) -> bool:
    """Whether connections are accepted."""
    try:
        socket.create_connection(api.address, 5).close()
    except OSError:
        return False
    return True
