"""The page of examples: each of its commands works as it stands there."""

import html
import os
import re
import subprocess

from beanpole import Client
from beanpole.console.api.table import OPERATIONS
from tests.e2e.console.process import TOKEN, Console, console, token_file, url_of
from tests.servers import HOST, REPLY_TIMEOUT_S, beanpole_server, peer

SHELL = """curl() { command curl --silent --show-error --write-out '\\n%{http_code}' "$@"; }; """
"""Makes curl say the status of the answer behind it."""


def commands(served: Console, token: str) -> list[str]:
    page = served.get("/examples", **({"Authorization": f"Bearer {token}"} if token else {}))
    assert page.status == 200
    found = re.findall(r'<pre class="command"><code>(.*?)</code></pre>', page.text, re.DOTALL)
    return [html.unescape(each) for each in found]


def run(line: str) -> str:
    """Runs a command; returns the status of the answer."""
    peer("curl")
    done = subprocess.run(
        ["bash", "-c", SHELL + line],
        env=os.environ | {"TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=REPLY_TIMEOUT_S,
        check=True,
    )
    return done.stdout.rpartition("\n")[2]


def test_each_command_works() -> None:
    name = 'it\'s $(one) & "more"'
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        token_file() as flags,
        console("--url", url_of(server, name), *flags) as served,
    ):
        client.put("hello")
        client.set_rules("default", {"attempts": 5})
        client.set_schedule("nightly", "hello", cron="30 2 * * *")
        found = commands(served, TOKEN)
        assert len(found) >= len(OPERATIONS)
        for line in found:
            assert f"http://{HOST}:{served.port}/" in line
            assert run(line) == "200", line
        for operation in OPERATIONS:
            places = re.sub(r"\\{\w+\\}", "[^/?]+", re.escape(operation.path))
            assert any(re.search(f"/api/v1{places}([?'\"]|$)", line) for line in found), operation


def test_without_tokens_those_that_look_work_and_the_others_are_refused(looking: Console) -> None:
    lines = commands(looking, "")
    for line in lines:
        if "$TOKEN" in line:
            assert run(line) == "403", line
        elif line.endswith("/servers"):
            assert run(line) == "200"
    assert any("$TOKEN" in line for line in lines)
