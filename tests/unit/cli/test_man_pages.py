"""The man pages that are made from the commands."""

import re
from pathlib import Path

import click
import pytest

import beanpole
from beanpole.cli.main import GROUPS, VERBS
from tests import man_pages

PAGES = dict(man_pages.pages())
REQUESTS = {"TH", "SH", "SS", "PP", "TP", "nf", "fi", "B", "BR"}


def test_each_verb_has_a_page() -> None:
    assert {f"beanpole-{verb}" for verb in VERBS} | {"beanpole", "beanpole-ids-serve"} <= PAGES.keys()


@pytest.mark.parametrize("name", PAGES)
def test_no_line_is_a_request_by_accident(name: str) -> None:
    assert set(re.findall(r"^[.'](\S*)", PAGES[name], re.MULTILINE)) <= REQUESTS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_the_command_is_for(name: str) -> None:
    found = re.search(r"^\.SH NAME\n(\S+) \\- (.+)$", PAGES[name], re.MULTILINE)
    assert found
    assert found[1].replace("\\-", "-") == name
    assert f'"Beanpole {beanpole.__version__}"' in PAGES[name].partition("\n")[0]


def test_a_page_has_options_variables_and_exit_codes() -> None:
    text = PAGES["beanpole-serve"]
    assert "\\fB\\-l, \\-\\-listen ADDR\\fR" in text
    assert ".TP\n\\fBBEANPOLE_LISTEN\\fR\nthe same as \\-\\-listen" in text
    assert ".SH EXIT STATUS\n.TP\n\\fB0\\fR\nstopped by SIGTERM or SIGINT" in text


def test_a_line_that_begins_with_a_dot_or_has_a_backslash_is_text() -> None:
    command = click.Command("odd", help="Above.\n\n.so /etc/passwd\n'a\\b\n\n\b\n.x\n  y\n")
    text = man_pages.page(click.Context(command, info_name="odd"))
    assert ".PP\n\\&.so /etc/passwd\n\\&'a\\eb\n.PP\n.nf\n\\&.x\n  y\n.fi\n" in text


def test_only_what_a_page_may_have_is_a_section() -> None:
    named = {each for text in PAGES.values() for each in re.findall(r"^\.SH (.*)$", text, re.MULTILINE)}
    usual = {
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "COMMANDS",
        "OPTIONS",
        "ENVIRONMENT",
        "NOTES",
        "EXIT STATUS",
        "SEE ALSO",
    }
    assert named == usual


def test_the_first_page_has_the_verbs_by_groups() -> None:
    assert re.findall(r"^\.SS (.*)$", PAGES["beanpole"], re.MULTILINE) == [*GROUPS]
    assert ".SS Jobs\n.TP\n\\fBbeanpole\\-put(1)\\fR\nPut jobs\n" in PAGES["beanpole"]


def test_pages_are_written_into_a_folder(tmp_path: Path) -> None:
    man_pages.main(tmp_path / "man")
    assert {path.name for path in (tmp_path / "man").iterdir()} == {f"{name}.1" for name in PAGES}
