"""How verbs end when something is wrong: one line, and an exit code that says what kind of thing it is."""

import json
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from beanpole import Client
from tests.e2e.cli.conftest import Cli, command, run
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, Server, beanpole_server


@pytest.mark.parametrize("verb", [["put", "x"], ["tubes"], ["top", "--once"], ["doctor"]])
def test_nobody_listens(verb: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))  # bound and not listening: nobody else gets it
        url = f"beanstalk://{HOST}:{taken.getsockname()[1]}"
        done = run(*verb, "--url", url)
    where = "(--url or BEANPOLE_URL says where the server is)"
    assert (done.code, done.err) == (4, f"beanpole: can't connect to {url}: Connection refused {where}\n")
    done = run(*verb, "--url", "unix:/nonexistent/socket")
    assert (done.code, done.err.count("\n")) == (4, 1)
    assert "can't connect to unix:/nonexistent/socket: No such file or directory" in done.err


def test_errors_as_json(cli: Cli, tube: str) -> None:
    none = f"{tube}-none"
    said = json.loads(cli("stats", none, "--json", code=2).err)
    assert said == {"error": f"there is no tube {none}", "exit_code": 2}
    said = json.loads(cli("stats", "two words", "--json", code=5).err)
    assert said["exit_code"] == 5
    assert "'two words'" in said["error"]
    done = run("tubes", "--json", "--url", "unix:/nonexistent/socket")
    assert json.loads(done.err)["exit_code"] == done.code == 4
    assert cli("stats", none, code=2).err.startswith("beanpole: ")


def test_url_without_a_scheme(cli: Cli, tube: str) -> None:
    assert run("put", "-t", f"tube:{tube}", "x", "--url", f"{HOST}:{cli.server.port}").code == 0
    assert run("clear", f"tube:{tube}", "-y", "--url", cli.url).lines == [f"1 job of {tube} deleted"]


def test_variable_that_is_no_url() -> None:
    done = subprocess.run(
        command("tubes"), env=environment({"BEANPOLE_URL": "http://h"}), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (5, 1)
    assert "BEANPOLE_URL" in done.stderr
    assert "'http://h'" in done.stderr


def test_server_that_is_gone_in_the_middle() -> None:
    with beanpole_server() as server:
        cli = Cli(server)
        pipe = subprocess.PIPE
        process = cli.start("put", "--each-line", stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"1\n"
    with process:
        _, err = process.communicate(b"second\n", timeout=60)
    assert process.returncode == 4
    assert err.count(b"\n") == 1, err
    assert err.startswith(b"beanpole: can't connect to ")
    assert err.endswith(b"; 1 put; nothing after body 1 was sent\n")


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (b"", 4, "beanpole: stats: the server closed the connection before it answered\n"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", 1, ""),
    ],
)
def test_what_answers_is_no_server(reply: bytes, code: int, said: str) -> None:
    with socket.create_server((HOST, 0)) as listener:

        def be_something_else() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = threading.Thread(target=be_something_else)
        thread.start()
        done = run("stats", "--url", f"beanstalk://{HOST}:{listener.getsockname()[1]}")
        thread.join(60)
    assert (done.code, done.err.count("\n")) == (code, 1)
    assert done.err.endswith(said)


def test_port_of_tls_that_is_reached_without() -> None:
    done = run("stats", "--url", "127.0.0.9:11400")
    assert (done.code, "port 11400 is that of TLS: beanstalks://127.0.0.9" in done.err) == (4, True), done.err


def test_interrupted_while_it_waits(cli: Cli, client: Client[bytes], tube: str) -> None:
    process = cli.start("reserve", tube, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        wait_until(lambda: client.stats_tube(tube).current_waiting == 1, "waiting")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def test_reader_that_leaves(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x" * 1000] * 500)
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -c 10', "-", *command("export", tube, "--url", cli.url)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (len(done.stdout), done.stderr) == (10, "")


def test_reader_that_leaves_keeps_the_job(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x" * 1000] * 200)
    process = cli.start("reserve", tube, "--count", 0, "--timeout", 0, "--delete", stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 1
    wait_until(lambda: client.stats_tube(tube).current_jobs_reserved == 0, "given back")
    assert client.stats_tube(tube).current_jobs_ready == 200


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_stream(cli: Cli, client: Client[bytes], tube: str, closed: str) -> None:
    client.put(b"x")
    verb = command("reserve", tube, "--delete", "--url", cli.url)
    done = subprocess.run(["bash", "-c", f'"$@" {closed}', "-", *verb], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == (0 if closed == "2>&-" else 1)
    wait_until(lambda: client.stats_tube(tube).current_jobs_ready == 1, "given back")


def test_unix_socket(tmp_path: Path) -> None:
    path = f"{tmp_path}/socket"
    with beanpole_server("-l", f"unix:{path}"):
        assert run("put", "--url", f"unix:{path}", "x").lines == ["1"]


def test_verbs_read_no_standard_input_that_they_do_not_need(cli: Cli, tube: str) -> None:
    with subprocess.Popen(command("put", "-t", tube, "x", "--url", cli.url), stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 0


# --- several addresses, as the nodes of a cluster have ----------------------------------------------------------------

NOBODY = f"{HOST}:1"


@pytest.mark.parametrize("form", ["beanstalk://{},{}", "{},{}", "beanstalk://{},beanstalk://{}"])
def test_the_next_address_is_asked_when_one_refuses(server: Server, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = form.format(NOBODY, f"{HOST}:{server.port}")
    assert run("tubes", "--url", url).code == 0
    monkeypatch.setenv("BEANPOLE_URL", url)
    assert run("tubes").code == 0


def test_every_address_is_named_when_none_can_be_reached() -> None:
    done = run("tubes", "--url", f"{NOBODY},{HOST}:2")
    assert done.code == 4
    assert done.err.splitlines() == [
        (
            f"beanpole: can't connect to beanstalk://{NOBODY}: Connection refused;"
            f" to beanstalk://{HOST}:2: Connection refused"
            " (--url or BEANPOLE_URL says where the server is)"
        )
    ]


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    assert f"_BEANPOLE_COMPLETE={shell}_complete" in done.out.decode()


def complete(line: str, url: str = "") -> list[str]:
    """What bash would offer for the last word of a line."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_BEANPOLE_COMPLETE": "bash_complete"}
    given = environment(asked | ({"BEANPOLE_URL": url} if url else {}))
    done = subprocess.run(command(), env=given, capture_output=True, text=True, check=True)
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]


def test_completion_knows_verbs_and_options() -> None:
    assert complete("beanpole re") == ["redrive", "relay", "release", "reserve", "resume"]
    assert complete("beanpole peek --st") == ["--state"]
    assert complete("beanpole peek --state b") == ["buried"]


def test_completion_knows_tubes(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"], tube=f"{tube}-emails")
    assert complete(f"beanpole clear {tube}-", cli.url) == [f"{tube}-emails"]
    assert complete(f"beanpole peek --url {cli.url} {tube}-e", "beanstalk://127.0.0.1:1") == [f"{tube}-emails"]
    assert complete("beanpole clear x", "unix:/nonexistent/socket") == []
