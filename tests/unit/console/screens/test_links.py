"""Addresses keep what they are about, and a tube's name is one part of a path."""

from urllib.parse import unquote

import pytest
from starlette.routing import Match, Route

from beanpole.console.screens import links
from tests.unit.console.screens.made import view


def test_a_changed_address_keeps_the_rest_of_the_filter() -> None:
    shown = view("/tubes", sort="-ready", text="mail", after="m9")
    assert links.url(shown, sort="name", after=None) == "/tubes?sort=name&text=mail"
    assert links.url(shown, text="") == "/tubes?sort=-ready&after=m9"
    assert links.url(shown, column=["a", "b"]).endswith("&column=a&column=b")


def test_another_screen_begins_without_a_filter() -> None:
    assert links.url(view("/tubes", text="mail", server="one"), "/jobs", state="buried") == "/jobs?state=buried"


def test_the_server_is_kept_where_there_are_several() -> None:
    shown = view("/tubes", servers=("one", "two"), server="two")
    assert links.url(shown, "/jobs") == "/jobs?server=two"
    assert links.url(shown, "/jobs", server=None) == "/jobs"
    assert links.tube_url(shown, "one", "mail") == "/tubes/mail?server=one"
    assert links.job_url(shown, "one", 7, "/body") == "/jobs/7/body?server=one"
    assert links.tube_url(view(), "one", "mail") == "/tubes/mail"


def test_a_parameter_may_have_any_name() -> None:
    asked = {"view": "a", "path": "b", "self": "c"}
    assert links.url(view("/tubes"), "/tubes.jsonl", **asked) == "/tubes.jsonl?view=a&path=b&self=c"


@pytest.mark.parametrize("name", ["mail", "/etc/passwd", "a/../b", "a;b", "a+b", "a//", "$(x)_", "%2e", "a?b#c"])
def test_the_name_of_a_tube_comes_back(name: str) -> None:
    address = links.tube_url(view(), "one", name)
    assert not any(part in {".", ".."} for part in address.split("/"))
    shown = view("/" + unquote(address.removeprefix("/")))
    match, scope = Route("/tubes/{tube:path}", unquote).matches(dict(shown.request.scope))
    assert match is Match.FULL
    assert scope["path_params"]["tube"] == name


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_browsers_take_for_a_folder_is_in_the_query(name: str) -> None:
    assert links.tube_url(view(), "one", name) == f"/tubes/-?tube={name}"


def test_a_changed_address_keeps_the_slash_of_a_name_encoded() -> None:
    shown = view("/tubes/a/../b", span="6h")
    shown.request.scope["raw_path"] = b"/tubes/a%2F..%2Fb"
    assert links.url(shown, span=None) == "/tubes/a%2F..%2Fb"


def test_no_address_leads_to_another_host() -> None:
    shown = view("/")
    shown.request.scope["raw_path"] = b'//elsewhere/x"\xff'
    assert links.url(shown, after=1) == "/elsewhere/x%22%FF?after=1"
    shown.request.scope["headers"] = [(b"host", b"elsewhere/login?")]
    assert links.url(shown, after=1) == "/elsewhere/x%22%FF?after=1"


@pytest.mark.parametrize("name", ["view", "path", "as_"])
def test_an_export_has_the_filter_of_its_page_whatever_stands_there(name: str) -> None:
    shown = view("/tubes")
    shown.request.scope["query_string"] = f"text=a+b&empty=&column=age&column=put&{name}=x".encode()
    assert links.export_url(shown) == f"/tubes.jsonl?text=a+b&column=age&column=put&{name}=x"


def test_jobs_belong_to_the_tubes() -> None:
    assert links.section(view("/jobs/17")) == "/jobs"
    assert links.section(view("/put")) == "/actions"
    assert links.section(view("/tubes/a")) == "/tubes"
    assert links.section(view("/")) == "/"
