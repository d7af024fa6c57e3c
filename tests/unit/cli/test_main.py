"""The verbs as a whole: groups, help, and what who mistypes one reads."""

import pytest

import beanpole
from beanpole.cli import main
from beanpole.errors import ExitCode


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command line, and what it writes."""
    code = main.main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_help_lists_each_verb_once_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    lines = out.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":") and line != "Options:"] == list(main.GROUPS)
    assert [line.split()[0] for line in lines if line[2:].split(" ")[0] in main.VERBS] == list(main.VERBS)
    assert max(map(len, lines)) <= 80
    assert len(main.VERBS) == sum(map(len, main.GROUPS.values())), "a verb is in two groups"


@pytest.mark.parametrize("verb", [("put",), ("rules", "set"), ("import",), ()])
def test_help_verb_is_what_the_verb_says_of_itself(capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]) -> None:
    assert run(capsys, "help", *verb) == run(capsys, *verb, "--help")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = (0, f"beanpole {beanpole.__version__}\n", "")
    assert run(capsys, "version") == run(capsys, "--version") == wanted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pt",), "beanpole: no verb 'pt'; did you mean put? (see beanpole --help)"),
        (("help", "pt"), "beanpole: no verb 'pt'; did you mean put? (see beanpole --help)"),
        (("drain",), "beanpole: no verb 'drain'; did you mean clear? (see beanpole --help)"),
        (("zzzz",), "beanpole: no verb 'zzzz' (see beanpole --help)"),
        (("rules", "sett"), "did you mean set?"),
        (("help", "rules", "sett"), "did you mean set?"),
        (("help", "put", "x"), "beanpole put has no verb 'x'"),
        (("put", "--tueb", "x"), "did you mean --at or --taken or --tube?"),
        (("serve", "--segment-bytse", "1"), "did you mean --segment-bytes?"),
        (("put", "--zzzz"), "beanpole put: no option '--zzzz' (see beanpole put --help)"),
        (("-x",), "beanpole: no option '-x' (see beanpole --help)"),
    ],
)
def test_who_mistypes_reads_the_likely_word(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_words_of_others_mean_verbs() -> None:
    assert not main.MEANT.keys() & main.VERBS.keys()
    assert set(main.MEANT.values()) <= main.VERBS.keys()
