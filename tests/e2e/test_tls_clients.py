"""Verbs, the worker and the console over TLS, with a CA of our own and a token."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole import Client, Login
from beanpole.access import tokens
from tests import certificates
from tests.e2e.process import Process, environment, serving, wait_until
from tests.servers import HOST
from tests.unit.client.test_login import SAN, token_file

WORKER = """
from beanpole import Client, Worker
worker = Worker(URL)

@worker.function("jobs", process=True)
def job(number):
    done.put(number)

@worker.function("done")
def done(number):
    with Client() as client:
        client.put(str(number), tube="end")
"""


USERS = """
[user.shop]
admin = true
certificates = ["CN=shop"]

[user.part]
certificates = ["CN=part"]
reserve = ["jobs"]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    """A server that has a user with a token, and with a certificate."""
    pair, ca = certificates.made("named", SAN, signer="ca"), certificates.made("ca").cert
    (tmp_path / "access.toml").write_text(USERS)
    token_file(tmp_path, tokens.add(tmp_path / "tokens", "shop").decode() + "\n")
    listening = f"tls:{HOST}:0,client-ca={ca},client-cert=optional"
    files = ("--tls-cert", pair.cert, "--tls-key", pair.key, "--access", tmp_path / "access.toml")
    with serving("-l", listening, *map(str, files), "--tokens", str(tmp_path / "tokens"), listen=False) as process:
        yield process


@pytest.fixture
def options(tmp_path: Path, server: Process) -> list[str]:
    """The options that a verb needs to be let in."""
    ca = ["--ca", str(certificates.made("ca").cert)]
    return ["--url", f"beanstalks://localhost:{server.port}", *ca, "--token-file", str(tmp_path / "token")]


def beanpole(*arguments: str, more: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "beanpole", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment(more), timeout=60)


def test_every_kind_of_verb_connects_by_options_or_variables(options: list[str]) -> None:
    variables = dict(zip(("BEANPOLE_URL", "BEANPOLE_CA", "BEANPOLE_TOKEN_FILE"), options[1::2], strict=True))
    assert beanpole("put", "--tube", "t", "one", *options).stdout == "1\n"  # the blocking client
    assert beanpole("put", "--tube", "t", "two", more=variables).stdout == "2\n"
    shop = certificates.made("shop", signer="ca")
    by_certificate = ["--cert", str(shop.cert), "--cert-key", str(shop.key)]
    assert json.loads(beanpole("stats", "t", "--json", *options[:4], *by_certificate).stdout)["current-jobs-ready"] == 2
    for verb in (["top", "--once", "--interval", "0.1"], ["doctor", "--interval", "0.1"]):
        done = beanpole(*verb, "--json", more=variables)
        assert done.returncode in {0, 1}, done.stderr
        assert json.loads(done.stdout.splitlines()[0]), done.stderr


def test_what_goes_wrong_is_one_line(options: list[str], tmp_path: Path) -> None:
    url, ca, token = (options[at : at + 2] for at in (0, 2, 4))
    for given, code, sentence in [
        ([*url, *token], 4, "is not from a CA that is trusted here: name the file of its CA (--ca, BEANPOLE_CA)"),
        ([*url, *ca], 1, "NOT_AUTHENTICATED: the server does not know who this is"),
        ([*url, *ca, "--token-file", str(tmp_path / "none")], 5, "none: No such file or directory"),
    ]:
        done = beanpole("top", "--once", *given)
        assert (done.returncode, sentence in " ".join(done.stderr.split())) == (code, True), (given, done.stderr)


@pytest.mark.parametrize("by", ["options", "code"])
def test_a_worker_and_what_its_handlers_put(options: list[str], tmp_path: Path, server: Process, by: str) -> None:
    login = Login(ca=options[3], token_file=options[5])
    variables = dict(zip(("BEANPOLE_URL", "BEANPOLE_CA", "BEANPOLE_TOKEN_FILE"), options[1::2], strict=True))
    (tmp_path / "tasks.py").write_text(WORKER.replace("URL", ""))
    command = [sys.executable, "-m", "beanpole", "worker", "tasks:worker", *(options if by == "options" else [])]
    more = environment(variables if by == "code" else None)
    with (
        subprocess.Popen(command, cwd=tmp_path, env=more, stderr=subprocess.PIPE, text=True) as process,
        Client(options[1], login=login, watch="end") as client,
    ):
        client.put('{"number": 7}', tube="jobs")
        assert client.reserve(60).body == "7"
        (tmp_path / "tokens").write_text("# none is known any more\n")
        server.signal(signal.SIGHUP)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert "NOT_AUTHENTICATED: the server does not know who this is" in said


def test_a_worker_that_may_not_reserve_its_tube_ends(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(WORKER.replace("URL", "").replace('"jobs"', '"secret"'))
    part = certificates.made("part", signer="ca")
    given = [*options[:4], "--cert", str(part.cert), "--cert-key", str(part.key)]
    done = beanpole("worker", "tasks:worker", *given, more={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, "no connection" in done.stderr) == (5, False), done.stderr
    assert "from secret, done: FORBIDDEN: this user lacks the right reserve on " in " ".join(done.stderr.split())


@pytest.mark.parametrize("own", ["", ", concurrency=1"], ids=["shared slots", "a slot of its own"])
def test_a_worker_says_from_which_tubes_it_may_not_reserve(options: list[str], tmp_path: Path, own: str) -> None:
    ending = '\n@worker.function("jobs")\ndef stop(number):\n    worker.stop()\n'
    begin = f"from beanpole import Worker\nworker = Worker()\n@worker.function('secret'{own})\ndef no():\n    pass\n"
    (tmp_path / "tasks.py").write_text(begin + ending)
    part = certificates.made("part", signer="ca")
    given = [*options[:4], "--cert", str(part.cert), "--cert-key", str(part.key)]
    beanpole("put", "--tube", "jobs", '{"number": 7}', *options)
    done = beanpole("worker", "tasks:worker", *given, more={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, '"tubes": ["secret"], "event": "no right"' in done.stderr) == (0, True), done.stderr


def test_a_console_shows_what_it_has_to_those_with_tls(options: list[str], tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    urls = ["--url", f"safe={options[1]}", "--url", "plain=127.0.0.1:1"]
    listening = ["--http", f"unix:{tmp_path / 'http'}", "--ready-file", str(ready)]
    command = [sys.executable, "-m", "beanpole", "console", *urls, *options[2:], *listening]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until(ready.exists, "the console is ready")
        try:
            found = curl(tmp_path / "http", "/metrics")
            assert 'beanpole_up{server="safe"} 1' in found
            assert 'beanpole_up{server="plain"} 0' in found
        finally:
            process.terminate()
            process.communicate(timeout=60)


def curl(path: Path, what: str) -> str:
    """Return what is served there over a Unix socket."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    connection.request("GET", what)
    text = connection.getresponse().read().decode()
    connection.close()
    return text
