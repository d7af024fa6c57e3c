"""`beanpole token` and `beanpole access`: a token is shown once, what is removed is said, a mistake has its line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from beanpole.access.file import load
from beanpole.access.tokens import HEADING, date_text
from beanpole.cli import main
from beanpole.cli.access import COMMAND_NAMES, TUBES
from beanpole.cli.inspect import unix_s
from beanpole.engine.commands.rights import ASKED
from beanpole.errors import ExitCode
from beanpole.protocol.commands import Verb

USERS = """\
[user.root]
unix = [0]
admin = true
stats = true
[user.shop]
certificates = ["DNS:shop", "CN=shop"]
put = ["orders", "mail-*"]
look = ["mail-*"]
stats = true
[user.nobody]
links = ["shop"]
"""


class Verbs:
    """Runs verbs with a file of tokens, and keeps all that they write."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys = capsys
        self.tokens = folder / "tokens"
        self.users = folder / "access.toml"
        self.users.write_text(USERS)
        self.users.chmod(0o644)

    def __call__(self, *arguments: object, code: int = ExitCode.OK, options: tuple[object, ...] = ()) -> str:
        """Run a verb with the file of tokens; return what it writes, and where it fails only what is wrong."""
        given = [*map(str, arguments), "--tokens", str(self.tokens), *map(str, options)]
        assert main.main(given) == code
        out, self.err = self.capsys.readouterr()
        return out if code == ExitCode.OK else self.err

    def objects(self, *arguments: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]


@pytest.fixture
def verbs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Verbs:
    return Verbs(capsys, tmp_path)


def test_a_token_is_shown_when_it_is_made_and_never_again(verbs: Verbs) -> None:
    out = verbs("token", "add", "shop", "--until", "90d", options=("--", "of", "the cron job"))
    secret = out.removesuffix("\n")
    assert re.fullmatch(r"bp_[A-Za-z0-9_-]{43}", secret)
    access = load(verbs.users, verbs.tokens)
    now_s = unix_s()
    found = access.by_token(secret.encode(), now_s)
    assert found is not None
    assert found.until is not None
    assert (found.user, round((found.until - now_s) / 86_400)) == ("shop", 90)
    assert verbs.err == f"beanpole: this is a token of shop until {date_text(found.until)}, and is not shown again\n"
    digest = next(iter(access.tokens)).hex()
    assert [line.split("\t") for line in verbs("token", "list").splitlines()] == [
        ["line", "user", "token", "until", "is-over", "words"],
        ["2", "shop", f"sha256:{digest[:12]}", date_text(found.until), "no", "of the cron job"],
    ]
    rest = f"(line 2, until {date_text(found.until)}, # of the cron job)"
    assert verbs("token", "remove", "shop") == f"removed shop sha256:{digest[:12]} {rest}\n"
    assert verbs.tokens.read_text() == HEADING


def test_tokens_as_json(verbs: Verbs) -> None:
    (made,) = verbs.objects("token", "add", "shop", "--until", "2999-01-01")
    assert (made["user"], made["until"], len(made["token"])) == ("shop", "2999-01-01T00:00:00Z", 46)
    (listed,) = verbs.objects("token", "list")
    assert listed.pop("token").startswith("sha256:")
    assert listed == {"line": 2, "user": "shop", "until": made["until"], "is-over": False, "words": ""}
    (removed,) = verbs.objects("token", "remove", "shop")
    assert (removed["line"], removed["user"], verbs.objects("token", "list")) == (2, "shop", [])


def test_one_of_several_tokens_is_removed_by_its_line_or_digest(verbs: Verbs) -> None:
    for name in ("shop", "root", "shop", "shop"):
        verbs("token", "add", name)
    digests = {row["line"]: row["token"] for row in verbs.objects("token", "list")}
    which = ", ".join(f"line {line}: shop {digests[line][:19]}" for line in (2, 4, 5))
    assert f"shop has 3 tokens; say which ({which})" in verbs("token", "remove", "shop", code=ExitCode.USAGE)
    assert "no line, and of a digest" in verbs("token", "remove", "shop", "abcde", code=ExitCode.USAGE)
    for wrong in ("3", "9", digests[3], "sha256:zzzzzz"):
        assert "shop has no such token in " in verbs("token", "remove", "shop", wrong, code=ExitCode.NOT_FOUND)
    assert verbs("token", "remove", "shop", digests[5][:13]).startswith(f"removed shop {digests[5][:19]} (line 5")
    assert verbs("token", "remove", "shop", digests[4].removeprefix("sha256:")).endswith("(line 4)\n")
    assert verbs("token", "remove", "shop", "2").endswith("(line 2)\n")
    assert [row["user"] for row in verbs.objects("token", "list")] == ["root"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "two words"], "a user's name has 1 to 64 letters"),
        (["add", "shop", "--until", "90"], "'90' is over"),
        (["add", "shop", "--until", "0d"], "'0d' is over"),
        (["add", "shop", "--until", "2026-02-30"], "is no time as in 90d, and no date"),
        (["add", "shop", "a\nb"], "these stand on one line"),
    ],
)
def test_what_is_no_token_is_not_made(verbs: Verbs, arguments: list[str], said: str) -> None:
    assert said in verbs("token", *arguments, code=ExitCode.USAGE)
    assert not verbs.tokens.exists()


def test_no_token_is_made_for_somebody_who_is_not_in_the_file_of_users(verbs: Verbs) -> None:
    verbs("token", "add", "shop", "--access", verbs.users)
    said = verbs("token", "add", "shpo", "--access", verbs.users, code=ExitCode.NOT_FOUND)
    assert said == f"beanpole: there is no user shpo in {verbs.users}\n"
    assert [row["user"] for row in verbs.objects("token", "list")] == ["shop"]


def test_a_file_of_tokens_that_is_wrong_is_left_as_it_is(verbs: Verbs) -> None:
    verbs.tokens.write_text("shop bp_secret\n")
    verbs.tokens.chmod(0o600)
    said = f"beanpole: {verbs.tokens}:1: this is not NAME sha256:HEX [until=DATE] [# words]; "
    for arguments in (["add", "shop"], ["list"], ["remove", "shop"]):
        assert verbs("token", *arguments, code=ExitCode.USAGE).startswith(said)
    assert verbs.tokens.read_text() == "shop bp_secret\n"


def test_a_file_that_is_not_there(verbs: Verbs) -> None:
    assert verbs("token", "list", code=ExitCode.USAGE) == f"beanpole: {verbs.tokens}: No such file or directory\n"
    verbs.tokens = verbs.tokens / "deeper"
    assert "No such file or directory" in verbs("token", "add", "shop", code=ExitCode.FAILED)


def test_a_file_of_users_is_checked(verbs: Verbs) -> None:
    verbs("token", "add", "shop", "--until", "13d")
    lines = verbs("access", "check", verbs.users).splitlines()
    assert lines == [
        f"{verbs.users}: 3 users, 1 token",
        "user\tknown-by\tmay",
        "root\tuid 0\teverything",
        "shop\tCN=shop, DNS:shop, 1 token\tput orders mail-*; look mail-*; stats",
        "nobody\t\tlinks shop",
    ]
    warnings = verbs.err.splitlines()
    assert warnings[0].startswith("beanpole: warning: shop sha256:")
    assert warnings[1].startswith("beanpole: warning: nobody can be nobody: ")
    rows = verbs.objects("access", "check", verbs.users)
    assert rows[1]["rights"] == {"put": ["orders", "mail-*"], "look": ["mail-*"]}


def test_what_is_wrong_with_a_file_of_users_is_said(verbs: Verbs) -> None:
    verbs("token", "add", "shpo")
    said = verbs("access", "check", verbs.users, code=ExitCode.USAGE)
    assert said == f"beanpole: {verbs.tokens}:2: there is no user shpo\n"
    verbs.users.write_text(f"{USERS}pt = []\n")
    said = verbs("access", "check", verbs.users, code=ExitCode.USAGE)
    assert said.startswith(f"beanpole: {verbs.users}:12: nobody: there is no key 'pt': a user has certificates, ")


# --- What a user may do -----------------------------------------------------------------------------------------------

TENANT = """\
[user.root]
admin = true
[user.ops]
stats = true
[user.shop]
put = ["orders", "mail-*"]
reserve = ["mail-*"]
look = ["jobs-*"]
manage = ["mail-x", "tmp-*"]
rules = ["mail-*"]
"""


@pytest.mark.parametrize(
    ("user", "command", "allowed", "said"),
    [
        ("shop", "put orders", True, "allowed by put orders"),
        ("shop", "put mail-", True, "allowed by put mail-*"),
        ("shop", "put mail", False, "refused with UNKNOWN_COMMAND: nothing gives put mail"),
        ("root", "put mail", True, "allowed by admin"),
        ("root", "list-sessions", True, "allowed by admin"),
        ("ops", "list-sessions", True, "allowed by stats"),
        ("ops", "stats-tube x", True, "allowed by stats"),
        ("ops", "peek-ready x", False, "refused with NOT_FOUND: nothing gives look x"),
        ("shop", "list-sessions", False, "refused with UNKNOWN_COMMAND: nothing gives stats"),
        ("shop", "stats-tube orders", True, "allowed by put orders"),
        ("shop", "reserve mail-a", True, "allowed by reserve mail-* (one of the watched tubes is enough)"),
        ("shop", "peek mail-x", True, "allowed by manage mail-x"),
        ("shop", "peek jobs-1", True, "allowed by look jobs-*"),
        ("shop", "kick-job jobs-1", False, "refused with NOT_FOUND: nothing gives manage jobs-1"),
        ("shop", "delete mail-a", True, "allowed by reserve mail-* (manage where the job is not ready, "),
        ("shop", "delete tmp-a", True, "allowed by manage tmp-* (manage where the job is not ready, "),
        ("shop", "delete orders", False, "refused with NOT_FOUND: nothing gives reserve orders (manage where "),
        ("shop", "release", True, "allowed (it needs no right, "),
        ("shop", "watch orders", True, "allowed (it needs no right, "),
        ("shop", "move-jobs tmp-1 mail-a", True, "allowed by manage tmp-* and put mail-*"),
        ("shop", "move-jobs tmp-1 tmp-2", False, "refused with UNKNOWN_COMMAND: nothing gives put tmp-2"),
        ("shop", "move-jobs a b", False, "refused with UNKNOWN_COMMAND: nothing gives manage a and put b"),
        ("shop", "change-job mail-x orders", True, "allowed by manage mail-x and put orders"),
        ("shop", "set-rules mail-a*", True, "allowed by rules mail-*"),
        ("shop", "set-rules mail-a* orders", True, "allowed by rules mail-* and put orders"),
        ("shop", "set-rules mail*", False, "refused with UNKNOWN_COMMAND: nothing gives rules mail*"),
        ("shop", "set-rules mail-* dead", False, "refused with UNKNOWN_COMMAND: nothing gives put dead"),
        ("shop", "set-schedule mail-a orders", False, "refused with UNKNOWN_COMMAND: nothing gives rules orders"),
    ],
)
def test_what_a_user_may_do_is_said_with_its_pattern(
    verbs: Verbs, user: str, command: str, allowed: bool, said: str
) -> None:
    verbs.users.write_text(TENANT)
    code = ExitCode.OK if allowed else ExitCode.FAILED
    for arguments in ([command], command.split()):
        assert main.main(["access", "test", user, *arguments, "--access", str(verbs.users)]) == code
        assert verbs.capsys.readouterr().out.startswith(said)


def test_what_a_user_may_do_as_json(verbs: Verbs) -> None:
    verbs.users.write_text(TENANT)
    arguments = ["access", "test", "shop", "move-jobs", "tmp-1", "b", "--access", str(verbs.users), "--json"]
    assert main.main(arguments) == ExitCode.FAILED
    assert json.loads(verbs.capsys.readouterr().out) == {
        "user": "shop",
        "command": "move-jobs tmp-1 b",
        "allowed": False,
        "by": ["manage tmp-*"],
        "missing": ["put b"],
        "answer": "UNKNOWN_COMMAND",
        "note": "",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["who", "put", "x"], ExitCode.NOT_FOUND, "there is no user who in "),
        (["shop", "pt", "x"], ExitCode.USAGE, "there is no command 'pt'"),
        (["shop", ""], ExitCode.USAGE, "there is no command ''"),
        (["shop", "put"], ExitCode.USAGE, "put is about 1 tube, not 0"),
        (["shop", "move-jobs", "a", "b", "c"], ExitCode.USAGE, "move-jobs is about 1 to 2 tubes, not 3"),
        (["shop", "put", "a*"], ExitCode.USAGE, "a tube's name has 1 to 200 "),
        (["shop", "set-rules", "a", "b*"], ExitCode.USAGE, "a tube's name has 1 to 200 "),
    ],
)
def test_what_can_not_be_tested_is_said(verbs: Verbs, arguments: list[str], code: int, said: str) -> None:
    verbs.users.write_text(TENANT)
    assert main.main(["access", "test", *arguments, "--access", str(verbs.users)]) == code
    assert said in verbs.capsys.readouterr().err


def test_each_command_can_be_tested(verbs: Verbs) -> None:
    for name in COMMAND_NAMES:
        right, of, _ = ASKED[Verb[name.upper().replace("-", "_")]]
        tubes = ["x"] * TUBES.get(of, (1, 1))[0]
        code = main.main(["access", "test", "nobody", name, *tubes, "--access", str(verbs.users)])
        assert code == (ExitCode.FAILED if right else ExitCode.OK)
