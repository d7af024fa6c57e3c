"""The console of a server with users: each sees and does there what they may do with all tubes."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole.access import tokens
from beanpole.errors import ExitCode
from tests.e2e.cli.conftest import run
from tests.e2e.console.person import person
from tests.e2e.console.process import Answer, Console, console
from tests.e2e.console.test_served import console_of, pid_of
from tests.e2e.process import Process, serving, wait_until
from tests.servers import HOST

USERS = """
[user.root]
admin = true
[user.keeper]
stats = true
manage = ["*"]
[user.ruler]
stats = true
manage = ["*"]
rules = ["*"]
[user.reader]
stats = true
look = ["*"]
[user.graphs]
stats = true
[user.shop]
put = ["*"]
look = ["orders"]
manage = ["orders"]
"""
NAMES = ("root", "keeper", "ruler", "reader", "graphs", "shop")
OLD = "old-token-of-the-console"


class Site:
    """A server with users and its console, and a token of each."""

    def __init__(self, process: Process, name: str, tokens: dict[str, str]) -> None:
        self.process = process
        self.name = name
        self.console: Console = console_of(process)
        self.tokens = tokens

    def get(self, user: str, path: str) -> Answer:
        return self.console.get(path, Authorization=f"Bearer {self.tokens[user]}" if user else "")

    def act(self, user: str, action: dict[str, object]) -> Answer:
        headers = {"Authorization": f"Bearer {self.tokens[user]}", "Content_Type": "application/json"}
        body = json.dumps({"server": self.name, **action})
        return self.console.ask("POST", "/api/v1/actions", body, **headers)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("users")
    access, file, old = folder / "access.toml", folder / "tokens", folder / "old"
    access.write_text(USERS)
    access.chmod(0o644)
    made = {name: tokens.add(file, name).decode() for name in NAMES} | {"old": OLD}
    old.touch(0o600)
    old.write_text(f"ann {OLD}\n")
    name = f"{os.uname().nodename}:{folder / 'queue'}"
    flags = ("-l", f"unix:{folder / 'queue'}", "--access", str(access), "--tokens", str(file))
    with serving(*flags, "--http", f"{HOST}:0", "--http-token-file", str(old), listen=False) as process:
        pid_of(process)
        yield Site(process, name, made)
        assert not [name for name, token in made.items() if token in process.output]


@pytest.mark.parametrize(
    ("user", "pages", "metrics"),
    [
        ("", 401, 401),
        ("old", 200, 200),
        ("root", 200, 200),
        ("keeper", 200, 200),
        ("reader", 200, 200),
        ("graphs", 403, 200),
        ("shop", 403, 403),
    ],
)
def test_who_sees_what(site: Site, user: str, pages: int, metrics: int) -> None:
    found = [site.get(user, path).status for path in ("/", "/jobs?tube=orders", "/api/v1/servers", "/openapi.json")]
    assert found == [pages] * 4
    assert site.get(user, "/metrics").status == metrics
    assert site.get(user, "/health").status == 200
    assert site.get(user, "/nothing").status == (404 if pages == 200 else pages)


PUT: dict[str, object] = {"verb": "put", "tube": "orders", "body": "x"}
PAUSE: dict[str, object] = {"verb": "pause", "tube": "orders", "seconds": 0}
RULES: dict[str, object] = {"verb": "set-rules", "pattern": "orders", "rules": "dead: other"}
DROP: dict[str, object] = {"verb": "drop-rules", "pattern": "orders"}
CHANGE: dict[str, object] = {"verb": "change", "ids": [1], "priority": 1}
MOVE: dict[str, object] = {"verb": "move", "ids": [1], "to": "other"}
NO_PAGES, NO_ACTIONS = "This user may not see this", 'lacks manage = ["*"]'


@pytest.mark.parametrize(
    ("user", "action", "why"),
    [
        ("shop", PUT, NO_PAGES),
        ("graphs", PUT, NO_PAGES),
        ("reader", PUT, NO_ACTIONS),
        ("reader", PAUSE, NO_ACTIONS),
        ("keeper", PUT, 'lacks put = ["*"]'),
        ("keeper", MOVE, 'lacks put = ["*"]'),
        ("keeper", DROP, 'lacks rules = ["*"]'),
        ("ruler", RULES, 'lacks put = ["*"]'),
    ],
)
def test_who_may_not_do_what(site: Site, user: str, action: dict[str, object], why: str) -> None:
    answer = site.act(user, action)
    assert answer.status in {403, 409}
    assert why in json.loads(answer.body)["detail"]


def test_who_may_do_what(site: Site) -> None:
    for user, action in [
        ("root", PUT),
        ("old", PUT),
        ("keeper", PAUSE),
        ("keeper", CHANGE),
        ("root", RULES),
        ("ruler", DROP),
        ("root", MOVE),
    ]:
        answer = site.act(user, action)
        assert answer.status == 200, answer.text
        assert json.loads(answer.body)["run"]["state"] == "done"
    who = [each["who"] for each in site.process.events("action")]
    assert who == ["root", "ann", "keeper", "keeper", "root", "ruler", "root"]


def test_a_browser_logs_in_with_a_token_of_a_user(site: Site) -> None:
    root, reader = (person(site.console, site.tokens[each]) for each in ("root", "reader"))
    assert b'<span class="who">root</span>' in root.get("/").body
    assert b"read-only" not in root.get("/").body
    assert b"lacks manage" in reader.get("/").body
    assert reader.post("/actions", {"verb": "pause"}).status == 403
    assert reader.post("/logout").status == 303
    assert reader.get("/").status == 303
    keeper = person(site.console, site.tokens["keeper"])
    assert keeper.log_in(site.tokens["shop"]).status == 403
    assert keeper.log_in("bp_" + "x" * 43).status == 401
    # Another test may have been refused for the same in this second: then that line is the one.
    refused = {(each["who"], each["peer"], each["reason"]) for each in site.process.events("login refused")}
    assert refused >= {("shop", HOST, "may not see this"), ("-", HOST, "nobody has this token")}


def test_old_tokens_are_warned_of(site: Site) -> None:
    event = site.process.events("old tokens")[0]
    assert "beanpole token add" in str(event["advice"])


def test_cookies_outlive_the_console(site: Site) -> None:
    root = person(site.console, site.tokens["root"])
    os.kill(pid_of(site.process), signal.SIGKILL)
    pid_of(site.process, starts=2)
    wait_until(lambda: root.get("/").status == 200, "the session goes on")


def test_a_console_by_itself_has_users_too(tmp_path: Path) -> None:
    access, file = tmp_path / "access.toml", tmp_path / "tokens"
    access.write_text("[user.eve]\nadmin = true\n")
    access.chmod(0o644)
    token = tokens.add(file, "eve").decode()
    for flags, why in {("--access", str(access)): "give --tokens", ("--tokens", str(file)): "give --access"}.items():
        refused = run("console", *flags)
        assert (refused.code, why in refused.err) == (ExitCode.USAGE, True), refused.err
    with console("--url", f"{HOST}:1", "--access", str(access), "--tokens", str(file)) as alone:
        found = [alone.get("/api/v1/servers", Authorization=f"Bearer {each}").status for each in (token, OLD)]
        assert found == [200, 401]
