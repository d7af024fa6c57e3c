"""`beanpole-ids get`, `rules`, `counters` and `reload` against a node and an HTTP server of the test's."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from beanpole_ids.cli.client import COMMAND_PAGE
from beanpole_ids.cli.main import main
from tests.unit.client.node import Asked, closed_port, counting, node, reply

APPS = [*(f"a-{number:04}" for number in range(COMMAND_PAGE - 1)), "b-\udcff", "c", "d"]
"""The last of the first page is no UTF-8."""

RULES = [
    {"rule": "order", "kind": "template", "source": "O{counter:06}", "cycle": "day", "remaining": 7, "resets_at": None},
    {"rule": "row", "kind": "snowflake", "batch": 9, "resets_at": None},
]


class Api(BaseHTTPRequestHandler):
    """What a node answers."""

    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        """Answers with rules and counters; each path counts."""
        self.asked.append((self.command, self.path))
        assert self.headers["X-Beanpole"], "a page of another site can't send this"
        parts = urlsplit(self.path)
        match [unquote(each) for each in parts.path.split("/")]:
            case ["", "v1", "rules"]:
                self.answer({"rules": RULES})
            case ["", "v1", "counters", "order"]:
                query = parse_qs(parts.query, errors="surrogateescape")
                after, most = query.get("after", [""])[0], int(query["limit"][0])
                page = [each for each in APPS if each > after][:most]
                more = page[-1] if page and page[-1] != APPS[-1] else None
                self.answer({"rule": "order", "counters": list(map(counter, page)), "next": more})
            case ["", "v1", "counters", "order", "a/b c"]:
                self.answer({"rule": "order"} | counter("a/b c"))
            case ["", "v1", "counters", *_]:
                self.answer({"type": "/docs#unknown-rule", "title": "Unknown", "detail": "there is no rule 'x'"}, 404)
            case ["", "v1", "reload"]:
                self.answer({"added": ["new"], "changed": [], "removed": ["old", "older"]})
            case _:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<html>")

    do_POST = do_GET  # noqa: N815 - the name that the library calls

    def answer(self, found: dict[str, Any], status: int = 200) -> None:
        """Answers with JSON."""
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def counter(app: str) -> dict[str, Any]:
    """A counter as the API has it."""
    return {"app": app, "counter": 1, "remaining": 2, "reserved": 3, "resets_at": None, "node_offset": 0}


@contextmanager
def serving() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """An HTTP server; gives its URL, and what it was asked."""
    asked: list[tuple[str, str]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Api,), {"asked": asked})) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with node(counting) as one:
        url = f"127.0.0.1:{one.address[1]}"
        assert main(["get", "order", "shop", "--salt", "x", "--url", url]) == 0
        assert capsys.readouterr().out == "0\n"
        assert one.asked[0]["salt"] == "x"
        assert "count" not in one.asked[0], "lxyfirst/id_server gives one, too"
        assert main(["get", "order", "shop", "-n", "1002", "--json", "--url", f"ids://{url},{url}"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [json.loads(each)["id"] for each in (lines[0], lines[999], lines[1001])] == ["1-0", "1-999", "2-1"]
        assert len(lines) == 1002


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"code": -1, "message": "system error: unknown rule"}, 2),
        ({"code": -1, "message": "system error: no"}, 1),
        ({"code": -2, "message": "exhausted: no"}, 1),
    ],
)
def test_a_refusal(capsys: pytest.CaptureFixture[str], fields: dict[str, Any], code: int) -> None:
    def script(asked: Asked, _: int) -> list[bytes]:
        return [reply(asked, **fields)]

    with node(script) as one:
        assert main(["get", "order", "shop", "--url", f"127.0.0.1:{one.address[1]}"]) == code
    assert capsys.readouterr() == ("", f"beanpole-ids: {fields['message']}\n")


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as (_, port):
        where = f"127.0.0.1:{port}"
        for verb, variable in ((["get", "order", "shop"], "BEANPOLE_IDS_URL"), (["rules"], "BEANPOLE_IDS_HTTP_URL")):
            assert main([*verb, "--url", where]) == 4
            said = capsys.readouterr().err
            assert where in said
            assert "Connection refused" in said
            assert variable in said


@pytest.mark.parametrize(
    "args",
    [
        ["get", "order"],
        ["get", "order", "shop", "-n", "0"],
        ["get", "order", "shop", "--url", "http://127.0.0.1"],
        ["get", "order", "x" * 30_000],
        ["rules", "--url", "ids://127.0.0.1"],
        ["rules", "--url", "http://127.0.0.1:x"],
        ["counters"],
    ],
)
def test_wrong_arguments(args: list[str]) -> None:
    assert main([*args]) == 5


def test_rules(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (url, _):
        assert main(["rules", "--url", url]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "rule\tkind\tsource\tcycle\tcounters\tnumbers\tremaining\tresets_at",
            "order\ttemplate\tO{counter:06}\tday\t\t\t7\t",
            "row\tsnowflake\t\t\t\t\t\t",
        ]
        assert main(["rules", "--url", url, "--json"]) == 0
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == RULES


def test_counters_come_page_by_page(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (url, asked):
        assert main(["counters", "order", "--url", url, "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["app"] for row in rows] == APPS
        assert [path for _, path in asked] == [
            f"/v1/counters/order?limit={COMMAND_PAGE}",
            f"/v1/counters/order?limit={COMMAND_PAGE}&after=b-%FF",
        ]
        assert main(["counters", "order", "a/b c", "--url", url]) == 0
        assert capsys.readouterr().out == "app\tcounter\tremaining\treserved\tresets_at\na/b c\t1\t2\t3\t\n"
        assert main(["counters", "x", "--url", url]) == 2
        assert capsys.readouterr() == ("", "beanpole-ids: there is no rule 'x'\n")


def test_reload(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (url, asked):
        assert main(["reload", "--url", url]) == 0
        assert capsys.readouterr().out == "reloaded; added: new; removed: old, older\n"
        assert asked == [("POST", "/v1/reload")]
        assert main(["reload", "--url", f"{url}/elsewhere"]) == 1
        assert "no ID service answers there" in capsys.readouterr().err
