"""The macros that all templates use, the frame of a page, and its files."""

import pytest

from beanpole.console.actions.action import Ids
from beanpole.console.screens import render
from beanpole.console.screens.screen import Screen, nothing
from beanpole.console.security.access import Visitor
from tests.unit.console.screens.made import HOSTILE, view

FRAME = Screen("/", "error.html", nothing)
SHOWN = {"phrase": "Not found", "sentence": "there is none"}


def part(text: str, **context: object) -> str:
    return render.environment().from_string(text).render(context)


def test_what_clients_wrote_is_escaped() -> None:
    text = part(
        "{{ ui.tube(view, 'one', bad) }}{{ ui.missing(bad) }}{{ ui.no(bad) }}{{ ui.bar(0.5, bad) }}"
        "{{ ui.badge(bad, '', bad) }}"
        "{{ ui.command_line(bad) }}{{ ui.search('text', bad, bad) }}{{ ui.empty(bad) }}{{ ui.time(1e300) }}",
        view=view(),
        bad="<script>\"'&",
    )
    assert "<script" not in text
    assert "9999-12-31" in text


def test_a_page_of_hostile_text_can_be_sent() -> None:
    page = render.page(view(), FRAME, {"phrase": HOSTILE, "sentence": HOSTILE})
    assert b"<script>" not in page.body
    assert b"alert(&#39;&#34;&amp;x" in page.body


def test_a_command_line_that_reads_ids_says_which() -> None:
    text = "{{ ui.same_command(line, target) }}"
    many = Ids(tuple(range(1, 401)))
    assert "ids of jobs 1, 2, 3 and 397 more" in part(text, line="xargs beanpole kick < IDS", target=many)
    assert "IDS" not in part(text, line="beanpole kick 1", target=Ids((1,)))
    assert not part(text, line="", target=many)


def test_numbers_are_short_and_exact_in_the_title() -> None:
    assert 'title="1\u202f234\u202f567"' in part("{{ ui.number(1234567) }}")
    assert ">1.23M<" in part("{{ ui.number(1234567) }}")
    assert "12\u202f345" in part("{{ ui.number(12345) }}")


def test_a_time_is_in_utc() -> None:
    assert part("{{ ui.time(0) }}") == '<time datetime="1970-01-01T00:00:00Z">1970-01-01 00:00:00</time>'


def test_the_head_of_a_column_says_how_it_sorts() -> None:
    text = part("{{ ui.sort(view, 'ready', 'Ready', by='-ready', numeric=true) }}", view=view("/tubes", after="x"))
    assert 'aria-sort="descending"' in text
    assert 'href="/tubes?sort=ready"' in text


def test_the_frame_shows_where_one_is_and_who() -> None:
    visitor = Visitor("ann", True, "back")
    text = bytes(render.page(view(visitor=visitor), FRAME, SHOWN).body).decode()
    assert 'href="/" aria-current="page"' in text
    assert 'value="back"' in text
    assert "ann" in text
    assert "read-only" not in text
    assert "chooser" not in text


def test_several_servers_can_be_chosen_and_a_visitor_may_only_look() -> None:
    shown = view(servers=("one", "<b>"), server="one")
    text = bytes(render.page(shown, FRAME, SHOWN).body).decode()
    assert "&lt;b&gt;" in text
    assert 'href="/?server=%3Cb%3E"' in text
    assert "read-only" in text


def test_nothing_in_a_page_is_inline() -> None:
    text = bytes(render.page(view(), FRAME, SHOWN).body).decode()
    assert " style=" not in text
    assert "<style" not in text
    assert "<script>" not in text


def test_a_file_has_the_address_of_its_content() -> None:
    version = render.files()["style.css"].version
    assert render.address("style.css") == f"/static/style.css?v={version}"


def test_a_file_that_there_is_not_is_a_fault_of_the_template() -> None:
    with pytest.raises(KeyError):
        render.address("none.css")
