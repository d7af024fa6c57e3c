"""Who may ask over HTTP, and for what: pages of other sites, names, bodies, lists, and reloads."""

from pathlib import Path

import pytest

from tests.e2e.http import HTTP, Web, tails, web
from tests.e2e.process import write_rules
from tests.e2e.test_http import healthy

# --- Who may ask ------------------------------------------------------------------------------------------------------


def test_page_of_another_site_gets_no_number(api: Web) -> None:
    """A GET needs no leave of a browser, so it gives none without a field that a page can't send."""
    path = "/v1/ids/order/a"
    assert api.get(path, X_Beanpole="").json()["type"] == "/docs#unmarked"
    for origin in ("http://evil.example", "null", "file://", f"https://{api.address[0]}"):
        found = api.get(path, "POST", Origin=origin)
        assert (found.status, found.json()["type"]) == (403, "/docs#other-site")
    own = f"http://{api.address[0]}:{api.address[1]}"
    assert tails(api.get(path, "POST", Origin=own).json()) == [0], "none was spent"
    assert "access-control-allow-origin" not in api.get(path, "OPTIONS", Origin="http://evil.example").fields


def test_names_of_the_service_are_known(tmp_path: Path) -> None:
    """Or a page could have a name of its own lead here, and read what is answered."""
    with web(
        tmp_path, config=write_rules(tmp_path, more=f'{HTTP.format("127.0.0.1:0")}\nnames = ["Ids.example"]')
    ) as api:
        for name in ("evil.example", "127.0.0.1.evil.example", "[::1", "localhost.evil.example:1", "x y"):
            found = api.get("/v1/rules", Host=name)
            assert (found.status, found.json()["type"]) == (421, "/docs#unknown-host"), name
        for name in ("ids.example", "IDS.EXAMPLE.:80", "localhost:1", "[::1]:1", "192.0.2.1"):
            assert api.get("/v1/rules", Host=name).status == 200
        healthy(api, "evil.example")  # what checks it may use any name


@pytest.mark.parametrize(
    ("body", "kind", "status", "detail"),
    [
        (b'{"count":1}', "", 415, "Content-Type: application/json"),
        (b"count=1", "application/x-www-form-urlencoded", 415, "Content-Type: application/json"),
        (b"{", "application/json", 400, "the body is no JSON"),
        (b"[" * 10_000, "application/json", 400, "the body is no JSON"),
        (b"[]", "application/json", 400, "must be a JSON object"),
        (b'{"cuont":1}', "application/json", 400, "unknown parameter 'cuont'"),
        (b'{"count":0}', "application/json", 400, "count must be 1 to 1000"),
        (b'{"count":true}', "application/json", 400, "count must be 1 to 1000"),
        (b'{"count":"1"}', "application/json", 400, "count must be 1 to 1000"),
        (b'{"count":1e2}', "application/json", 400, "count must be 1 to 1000"),
        (b'{"count":1,"count":5}', "application/json", 400, "count is given twice"),
        (b'{"salt":"7","s\\u0061lt":"8"}', "application/json", 400, "salt is given twice"),
        (b'{"salt":1}', "application/json", 400, "salt must be a string"),
        (b'{"salt":"\\u0000"}', "application/json", 400, "NUL"),
        (b'{"request_id":null}', "application/json", 400, "request_id must be a string or a whole number"),
        (b'{"request_id":1.5}', "application/json", 400, "request_id must be a string or a whole number"),
        (b"x" * 20_000, "application/json", 413, "too large"),
    ],
)
def test_body_that_is_refused(shared: Web, body: bytes, kind: str, status: int, detail: str) -> None:
    found = shared.get("/v1/ids/order/refused", "POST", body, Content_Type=kind)
    assert (found.status, found.json()["status"]) == (status, status)
    assert detail in found.json()["detail"]
    assert shared.get("/v1/counters/order/refused").json()["type"] == "/docs#unused", "no number was given"


def test_body_that_is_read(api: Web) -> None:
    path, kind = "/v1/ids/order/a", "application/json; charset=utf-8"
    first = api.get(path, "POST", b'{"count":3,"request_id":"x"}', Content_Type=kind).json()
    assert tails(first) == [0, 1, 2]
    assert api.get(path, "POST", b'{"request_id":"x"}', Content_Type=kind).json() != first, "another count"
    assert api.get(path + "?count=3&request_id=x").json() == first
    assert tails(api.get(path + "?count=2", "POST", b'{"request_id":7}', Content_Type=kind).json()) == [4, 5]
    assert api.service.ask(request_id=7, count=2)["data"][0].endswith("000004"), "as on the wire"
    twice = api.get(path + "?count=2", "POST", b'{"count":2}', Content_Type=kind)
    assert (twice.status, twice.json()["detail"]) == (400, "count is given twice, in the query and in the body")
    assert api.get(path, "GET", b"{}", Content_Type=kind).status == 400
    assert tails(api.get(path).json()) == [6]
    assert tails(api.get(path, "POST", b'{"request_id":"count:1","count":1}', Content_Type=kind).json()) == [7]


# --- Rules and counters -----------------------------------------------------------------------------------------------


def test_rules_and_counters(api: Web) -> None:
    api.get("/v1/ids/order/a?count=3")
    for name in ("b", "gr%C3%B6%C3%9Fe"):
        api.get(f"/v1/ids/order/{name}")
    order, small = api.get("/v1/rules").json()["rules"]
    assert (order["rule"], order["kind"], order["cycle"], order["batch"]) == ("order", "template", "day", 100)
    assert (order["counters"], order["numbers"], order["remaining"]) == (3, 5, 999_997)
    assert order["source"] == "O{year:02}{month:02}{day:02}{counter:06}"
    assert (small["counters"], small["remaining"], small["cycle_numbers"], small["resets_at"]) == (0, 21, 21, None)
    assert api.get("/v1/rules/order").json() == order
    page = api.get("/v1/counters/order?limit=2").json()
    assert [each["app"] for each in page["counters"]] == ["a", "b"]
    assert page["counters"][0] == {
        name: value for name, value in api.get("/v1/counters/order/a").json().items() if name != "rule"
    }
    rest = api.get(f"/v1/counters/order?limit=2&after={page['next']}").json()
    assert ([each["app"] for each in rest["counters"]], rest["next"]) == (["größe"], None)
    assert api.get("/v1/counters/small").json() == {"rule": "small", "counters": [], "next": None}
    for path in ("/v1/rules/none", "/v1/counters/none"):
        assert api.get(path).json()["type"] == "/docs#unknown-rule"
    for path in ("/v1/counters/order?limit=0", "/v1/counters/order?limit=1001", "/v1/rules?x=1"):
        assert api.get(path).status == 400


def test_reload(api: Web) -> None:
    path = api.service.folder / "rules.toml"
    before = path.read_text()
    path.write_text(
        before.replace('name = "small"', 'name = "other"').replace("batch = 100", "batch = 50\nmaximum = 10")
    )
    assert api.get("/v1/reload").status == 405
    assert api.get("/v1/reload", "POST", Origin="http://evil.example").json()["type"] == "/docs#other-site"
    assert api.get("/v1/reload", "POST", Via="1.1 proxy").json()["type"] == "/docs#not-from-here"
    assert api.get("/v1/ids/other/a").status == 404
    api.get("/v1/ids/order/a")
    changed = api.get("/v1/reload", "POST").json()
    assert changed == {"added": ["other"], "changed": ["order"], "removed": ["small"], "settings": []}
    assert api.get("/v1/ids/other/a").status == 200
    order = api.get("/v1/rules/order").json()
    assert (order["batch"], order["cycle_numbers"], order["remaining"]) == (50, 11, 10), "also of what is in memory"
    path.write_text(before.replace("{counter:02}", "{counter}"))
    refused = api.get("/v1/reload", "POST")
    assert (refused.status, refused.json()["type"]) == (409, "/docs#refused")
    assert "small" in refused.json()["detail"]
    assert api.get("/v1/ids/other/a").status == 200, "nothing has changed"
