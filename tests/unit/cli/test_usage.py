"""Wrong arguments: one line that says what is wrong, and exit code 5, before any server is asked."""

import pytest

from beanpole.cli.main import main
from beanpole.errors import ExitCode
from beanpole.protocol.names import NAME_RULE

NO_TUBES = ("two words", "", "-x", "ü", "x" * 201)
NO_URLS = ("local host", "http://127.0.0.1", "beanstalk://", "beanstalk://h:x", "unix:")
NO_IDS = ("0", "-1", "x", str(2**64))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *((["stats", "--", f"tube:{name}"], NAME_RULE) for name in NO_TUBES),
        *((["tubes", "--url", url], "'--url'") for url in NO_URLS),
        *((["bury", "--", id], "Invalid value for") for id in NO_IDS),
        (["top", "--url", "h", "--map", "m.toml"], "--url and --map exclude each other"),
        (["doctor", "--map", "/nonexistent/m.toml"], "/nonexistent/m.toml"),
        (["console", "--map", "/nonexistent/m.toml"], "/nonexistent/m.toml"),
        (["bury"], "beanpole bury: Missing argument 'ID...' (see beanpole bury --help)\n"),
        (["put", "x", "--ttr"], "beanpole put: Option '--ttr' requires an argument (see beanpole put --help)\n"),
        (["jobs", "t"], "beanpole: jobs is list now: call beanpole list (see beanpole --help)\n"),
        (["put", "--each-line", "x"], "no BODY"),
        (["put", "--file", "/nonexistent/body"], "/nonexistent/body"),
        (["put", "--ttr", "0", "x"], "from 1 to"),
        (["put", "--taken", "keep", "x"], "--key"),
        (["put", "--delay", "nan", "x"], "no time"),
        (["put", "--expire", "-1", "x"], "no time"),
        (["reserve", "--bury", "--delete"], "exclude each other"),
        (["reserve", "--release", "--bury", "--exec", "true"], "exclude each other"),
        (["reserve", "--exec", "true", "--delete"], "--exec deletes"),
        (["reserve", "--count", "0", "--exec", "false"], "again and again"),
        (["reserve", "--count", "0", "--release"], "again and again"),
        (["kick"], "--all"),
        (["kick", "t", "--all", "--count", "1"], "--count"),
        (["change", "1"], "nothing to change"),
        (["delete", "t"], "clear"),
        *(([*verb, "--reason", ""], "every reason") for verb in (["delete", "1"], ["kick", "t"], ["redrive", "t"])),
        (["move", "t", "u", "--reason", ""], "every reason"),
        (["export", "t", "--remove", "--state", "reserved"], "nobody has reserved"),
        (["list", "t", "--from", "5", "--to", "3"], "--from is after --to"),
        (["import"], "import --tube TUBE"),
        (["import", "--tube", "t", "one", "two"], "one FILE"),
        (["import", "t", "/nonexistent/jobs"], "/nonexistent/jobs"),
        (["import", "t", "--zone", "UTC"], "--crontab"),
        (["import", "t", "--user-column"], "--user-column is about a --crontab"),
        (["import", "--zone", "Mars"], "no time zone 'Mars'"),
        (["completion", "tcsh"], "tcsh"),
        (["conformance", "127.0.0.1:11300"], "write {port} where its port stands"),
    ],
)
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(arguments) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)
