"""The macros for actions, as other screens write them."""

from types import SimpleNamespace

import pytest

from beanpole.console.screens.render import environment
from beanpole.console.security.access import READ_ONLY, Visitor

TOKEN = "t"  # noqa: S105
HEAD = (
    """<form class="action" method="post" action="/actions/dry-run"><input type="hidden" name="form_token" value="t">"""
)


def shown(text: str, *, may_change: bool = True) -> str:
    """What a template shows."""
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
