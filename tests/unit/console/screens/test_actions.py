"""The macros for actions, what their pages say of what is given, and the way back."""

from types import SimpleNamespace

import pytest

from beanpole.console.actions.action import Action, Filter, Given, Group, Ids, Pattern, Target, Tube
from beanpole.console.screens.actions import given_with, way_back
from beanpole.console.screens.render import environment
from beanpole.console.security.access import READ_ONLY, Visitor
from tests.unit.console.screens.made import view

TOKEN = "t"  # noqa: S105
HEAD = (
    """<form class="action" method="post" action="/actions/dry-run"><input type="hidden" name="form_token" value="t">"""
)


def shown(text: str, *, may_change: bool = True) -> str:
    view = SimpleNamespace(visitor=Visitor("anne", may_change=may_change, form_token=TOKEN))
    return environment().from_string(text).render(view=view)


def test_a_button_brings_what_its_action_is_about() -> None:
    html = shown("{{ ui.action_button(view, 'delete', 'Delete', 'a', kind='danger', id=[1, 2], tube='<b>', text='') }}")
    assert html.startswith(HEAD)
    assert '<input type="hidden" name="verb" value="delete"><input type="hidden" name="server" value="a">' in html
    assert '<input type="hidden" name="id" value="1"><input type="hidden" name="id" value="2">' in html
    assert 'name="tube" value="&lt;b&gt;"' in html
    assert 'name="text"' not in html
    assert html.endswith('<button class="danger">Delete</button></form>')


def test_a_number_is_a_field_also_if_it_is_0() -> None:
    assert 'name="seconds" value="0"' in shown("{{ ui.action_button(view, 'pause', 'Pause', 'a', seconds=0) }}")


@pytest.mark.parametrize(
    "text", ["ui.action_button(view, 'kick', 'Kick', 'a', id=1)", "ui.bulk(view, 'a', [('kick', 'Kick')])"]
)
def test_who_may_only_look_sees_why_no_button_works(text: str) -> None:
    assert f'disabled title="{READ_ONLY}"' in shown(f"{{{{ {text} }}}}", may_change=False)
    assert "disabled" not in shown(f"{{{{ {text} }}}}")


def test_all_that_fit_are_only_there_with_a_filter() -> None:
    verbs = "[('kick', 'Kick'), ('delete', 'Delete')]"
    html = shown("{{ ui.bulk(view, 'a', " + verbs + ", total='about 5', tube='mail', state='buried') }}")
    assert "all about 5 that fit" in html
    assert '<input type="radio" name="scope" value="chosen" checked>' in html
    assert '<input type="hidden" name="state" value="buried">' in html
    assert html.count('<button class="small danger" name="verb" value="delete">Delete</button>') == 1
    assert "that fit" not in shown("{{ ui.bulk(view, 'a', " + verbs + ") }}")


def given(verb: str, given: Given) -> dict[str, str]:
    return dict(given_with(Action(verb, "one", Tube("mail"), given)))


def test_what_is_given_is_written_with_its_labels() -> None:
    assert given("move", Given(to="elsewhere")) == {"Into the tube": "elsewhere"}
    assert given("pause", Given(seconds=60)) == {"For": "60 s"}
    assert given("clear", Given(states=("ready", "buried"))) == {"Jobs that are": "ready, buried"}
    assert given("change", Given(priority=5, delay=0.5)) == {"Priority": "5", "Delay": "0.5 s"}
    assert given("kick", Given()) == {}
    assert given("set-rules", Given(rules="attempts: 3")) == {}, "the page shows what changes"


def test_a_body_is_shown_up_to_a_length() -> None:
    found = given("put", Given(body=b"a\x00" + b"b" * 1000, taken="replace", ttr=60))
    assert found["Body"].startswith("a\\x00b")
    assert found["Body"].endswith("b…")
    assert len(found["Body"]) < 200
    assert found["If a job has the key already"] == "it is replaced"
    assert given("put", Given(body=b""))["Body"] == "empty"


@pytest.mark.parametrize(
    ("target", "address"),
    [
        (Ids((7,)), "/jobs/7"),
        (Ids((7, 8)), "/tubes/mail"),
        (Filter("a/b", "buried", "x"), "/jobs?tube=a%2Fb&state=buried&text=x"),
        (Group("mail", "ValueError: x"), "/failures?tube=mail"),
        (Tube("web"), "/tubes/web"),
        (Pattern("m*"), "/rules"),
        (None, "/tubes/mail"),
    ],
)
def test_the_way_back_leads_to_what_it_is_about(target: Target | None, address: str) -> None:
    assert way_back(view(), "one", target, "mail")[1] == address


def test_without_a_tube_the_way_back_leads_to_all_of_the_server() -> None:
    shown = view("/actions", servers=("one", "two"))
    assert way_back(shown, "two", None) == ("To the tubes", "/tubes?server=two")
