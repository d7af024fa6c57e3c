"""``--map``: two shards seen as one server by `top`, the doctor and the console, with one of them away as well."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from beanpole.client import Client
from beanpole.errors import ExitCode
from tests import forks
from tests.e2e.console.process import TOKEN, console, token_file
from tests.e2e.observe.command import PROGRAM
from tests.e2e.process import Process, environment, serving, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S

MAP = """epoch = 1
[shard]
a = {{ number = 0, nodes = "{host}:{a}" }}
b = {{ number = 1, nodes = "{host}:{b}" }}
[tubes]
mail = "a"
push = "b"
both = ["a", "b"]
"""


class Two:
    """Two shards, and their map. Each has a job of the tube `both`, and one of its own."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.shards = [stack.enter_context(serving("--shard", str(number))) for number in range(2)]
        self.clients = [stack.enter_context(Client((HOST, each.port), None)) for each in self.shards]
        self.file = folder / "shards.toml"
        self.file.write_text(MAP.format(host=HOST, a=self.shards[0].port, b=self.shards[1].port))
        for client, tube in zip(self.clients, ("mail", "push"), strict=True):
            for each in (tube, "both"):
                client.put(b"x", tube=each)

    @property
    def second(self) -> Process:
        return self.shards[1]

    def say(self, *arguments: str, code: int = ExitCode.OK) -> Any:  # noqa: ANN401 - whatever JSON says
        """What a command writes with --json."""
        command = [*PROGRAM, *arguments, "--interval", "0.1", "--json"]
        found = environment() | {"BEANPOLE_MAP": str(self.file)}
        done = forks.run(
            command,
            capture_output=True,
            env=found,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=REPLY_TIMEOUT_S,
        )
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with ExitStack() as stack:
        yield Two(stack, tmp_path)


def test_top_has_one_list_of_tubes_the_sums_and_who_is_away(two: Two) -> None:
    found = two.say("top", "--once")
    assert (found["server"]["shards"], found["server"]["current-jobs-ready"]) == (2, 4)
    tubes = {each["name"]: (each["shards"], each["current-jobs-ready"]) for each in found["tubes"]}
    assert tubes == {"both": ("a, b", 2), "mail": ("a", 1), "push": ("b", 1), "default": ("a, b", 0)}
    alone = two.say("top", "--once", "--url", f"{HOST}:{two.second.port}")
    assert "shards" not in alone["server"], "a server that the line names goes before the variable's map"
    two.second.signal(signal.SIGKILL)
    two.second.wait_exit()
    found = two.say("top", "--once")
    assert (found["server"]["shards-away"], found["server"]["current-jobs-ready"]) == ("b", 2)


def test_the_doctor_examines_each_shard_and_what_they_have_together(two: Two) -> None:
    two.clients[1].put(b"x", tube="mail")
    found = {each["check"]: each for each in two.say("doctor", code=ExitCode.FAILED)["findings"]}
    assert [line.split(":")[0] for line in found["durability"]["evidence"]] == ["a", "b"]
    assert found["misfits"]["evidence"] == ["nobody looks for the jobs of mail on b"]
    assert sorted(found["no-workers"]["tubes"]) == ["both", "mail", "push"]
    two.second.signal(signal.SIGKILL)
    two.second.wait_exit()
    found = {each["check"]: each for each in two.say("doctor", code=ExitCode.FAILED)["findings"]}
    assert found["shards-away"]["evidence"] == ["b, of 2 shards"]
    assert sorted(found["no-workers"]["tubes"]) == ["both", "mail"]


def test_the_console_shows_all_as_one_acts_on_all_and_measures_each(two: Two) -> None:
    with token_file() as flags, console("--map", str(two.file), *flags) as found:
        own = {"Authorization": f"Bearer {TOKEN}"}
        page = found.get("/tubes", **own).text
        assert page.count('data-label="Ready">2</td>') == 1
        assert "a, b</span>" in page
        order = json.dumps({"server": "map", "verb": "pause", "tube": "both", "seconds": 600})
        answer = found.ask("POST", "/api/v1/actions", order, Content_Type="application/json", **own)
        assert answer.status == 200, answer.text
        assert [each.stats_tube("both").pause for each in two.clients] == [600, 600]
        values = found.scrape()
        ready = {
            dict(labels)["server"]: value
            for (name, labels), value in values.items()
            if name == "beanpole_jobs" and {("tube", "both"), ("state", "ready")} <= labels
        }
        assert ready == {"a": 1, "b": 1}
        two.second.signal(signal.SIGKILL)
        two.second.wait_exit()
        wait_until(lambda: ">away<" in found.get("/", **own).text, "the shard is away")
        page = found.get("/tubes/both", **own).text
        assert "b: " in found.get("/health").text
        assert ">1<" in page


def test_a_signal_leaves_nothing_behind(two: Two, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [*PROGRAM, "doctor", "--map", str(two.file), "--interval", "1h"]
    process = forks.Popen(command, env=environment() | {"TMPDIR": str(folder)}, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: two.clients[0].stats().get("links") == 1, "the doctor is there")
        assert [*folder.iterdir()]
        process.terminate()
        assert process.wait(REPLY_TIMEOUT_S) == -signal.SIGTERM
        assert not [*folder.iterdir()]
    finally:
        process.kill()


def test_a_map_without_a_shard_that_is_to_be_reached_is_one_line(two: Two) -> None:
    for each in two.shards:
        each.signal(signal.SIGKILL)
        each.wait_exit()
    done = forks.run(
        [*PROGRAM, "doctor", "--map", str(two.file)], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (
        ExitCode.NO_SERVER,
        f"beanpole: {two.file}: there is no link to a and b\n",
    )
