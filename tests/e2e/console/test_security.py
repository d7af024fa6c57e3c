"""Who may see and change what, and what attackers try."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from beanpole.errors import ExitCode
from tests.e2e.cli.conftest import run
from tests.e2e.console.person import Person, person
from tests.e2e.console.process import FORM, Answer, Console, connected, console, url_of
from tests.e2e.console.test_served import console_of, pid_of
from tests.e2e.process import serving
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, beanpole_server

ANN, BOB = "ann-" + "a" * 28, "bob-" + "b" * 28
BEARER = f"Bearer {ANN}"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has nothing to hide."""
    with beanpole_server() as found:
        yield found


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that Ann and Bob stand in."""
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.touch(0o600)
    path.write_text(f"ann {ANN}\nbob {BOB}\n")
    return path


@pytest.fixture(scope="module")
def served(server: Server, tokens: Path) -> Iterator[Console]:
    with guarded(server, tokens) as found:
        yield found
        assert ANN not in found.messages.read_text()


@contextmanager
def guarded(server: Server, tokens: Path, *flags: str) -> Iterator[Console]:
    """A console that asks for a token."""
    with console("--url", url_of(server, "one"), "--http-token-file", str(tokens), *flags) as found:
        yield found


# --- Who may look -----------------------------------------------------------------------------------------------------


def test_without_tokens_everybody_may_look_and_nobody_change(server: Server) -> None:
    with console("--url", url_of(server, "one")) as served:
        anybody = Person(served)
        assert anybody.get("/").status == 200
        assert b"read-only" in anybody.get("/").body
        assert served.get("/", Authorization="Bearer whatever-it-may-be").status == 200
        for path in (
            "/actions",
            "/actions/dry-run",
            "/actions/1/stop",
            "/actions/1/undo",
            "/api/v1/actions",
            "/nothing",
        ):
            answer = anybody.post(path)
            assert answer.status == 403, path
            assert b"Read-only" in answer.body
        assert anybody.ask("DELETE", "/api/v1/actions/1").status == 403
        assert anybody.post("/login", {"token": ANN}).status == 403
        assert anybody.get("/login").status == 404


def test_off_loopback_without_tokens_there_is_no_page(server: Server, tokens: Path) -> None:
    everywhere = ("--http", "0.0.0.0:0")
    with console("--url", url_of(server, "one"), *everywhere) as served:
        for path in ("/", "/api/v1/servers", "/tubes?server=one", "/nothing"):
            answer = served.get(path)
            assert answer.status == 403, path
            assert "--http-token-file" in answer.text
        for path in ("/metrics", "/health", "/ready", "/leader"):
            assert served.get(path).status == 200, path
    with guarded(server, tokens, *everywhere) as served:
        assert served.get("/").status == 401
        assert served.get("/", Authorization=BEARER).status == 200


def test_people_are_led_to_the_login_and_programs_refused(served: Console) -> None:
    answer = Person(served).get("/tubes?sort=-ready&server=one")
    assert answer.status == 303
    assert answer.headers["location"] == "/login?to=/tubes%3Fsort%3D-ready%26server%3Done"
    assert Person(served).post("/actions").headers["location"] == "/login?to=/"
    for answer in (
        served.get("/"),
        served.get("/", Accept="text/event-stream"),
        Person(served).get("/api/v1/servers"),
        Person(served).get("/openapi.json"),
        Person(served).post("/api/v1/actions"),
    ):
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="beanpole"'
        assert b"one" not in answer.body
    problem = served.get("/api/v1/servers")
    assert problem.headers["content-type"] == "application/problem+json"
    assert json.loads(problem.body)["status"] == 401


def test_metrics_and_checks_are_for_everybody(served: Console) -> None:
    for path in ("/metrics", "/health", "/ready", "/leader"):
        assert served.get(path).status == 200, path
        assert served.get(path, Authorization="Bearer wrong-token-wrong").status == 200, path
    assert served.get("/static/style.css").status == 200


def test_who_logs_in_gets_a_cookie_that_scripts_and_others_do_not(served: Console) -> None:
    ann = Person(served)
    answer = ann.log_in(ANN, to="/tubes?sort=-ready")
    assert (answer.status, answer.headers["location"]) == (303, "/tubes?sort=-ready")
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert value.startswith(f"beanpole-session-{served.port}="), "another console of this host has another cookie"
    assert {each.lower() for each in attributes} == {"httponly", "max-age=43200", "path=/", "samesite=strict"}
    assert ANN not in value
    assert ann.get("/").status == 200
    assert b"read-only" not in ann.get("/").body
    assert len(ann.form_token) == 64
    behind = Person(served).post("/login", {"token": ANN}, X_Forwarded_Proto="https")
    assert "; Secure" in behind.headers["set-cookie"]


def test_a_restart_ends_no_session(server: Server, tokens: Path) -> None:
    with guarded(server, tokens) as served:
        ann, port = person(served, ANN), served.port
    with guarded(server, tokens) as served:
        cookie = ann.cookie.replace(f"-{port}=", f"-{served.port}=")
        assert Person(served, cookie).get("/").status == 200


def test_logging_out_ends_every_copy_of_the_cookie(served: Console) -> None:
    ann, other = person(served, ANN), person(served, ANN)
    answer = ann.post("/logout")
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert f'beanpole-session-{served.port}=""' in answer.headers["set-cookie"]
    assert ann.get("/").status == 303
    assert other.get("/").status == 200


def test_bearer_is_for_programs_whatever_they_ask(served: Console) -> None:
    assert served.get("/", Authorization=BEARER).status == 200
    assert served.get("/", Authorization=f"bearer  {BOB} ").status == 200
    assert served.get("/", Authorization=f"Basic {ANN}").status == 401
    assert served.get("/", "POST", Authorization=BEARER, Content_Type=FORM).status == 405
    assert served.get("/nothing", Authorization=BEARER).status == 404


def test_the_file_of_tokens_is_read_again(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(f"ann {ANN}\nbob {BOB}\n")
    with guarded(server, path) as served:
        ann, bob = person(served, ANN), person(served, BOB)
        path.write_text(f"bob {BOB}\n")
        assert ann.get("/").status == 303
        assert served.get("/", Authorization=BEARER).status == 401
        assert bob.get("/").status == 200
        path.write_text("bob\n")
        assert [bob.get("/").status for _ in range(3)] == [303] * 3
        path.write_text(f"# both\nann {ANN}\nbob {BOB}\n")
        assert ann.get("/").status == 200
        messages = served.messages.read_text()
        assert messages.count("tokens unreadable") == messages.count("tokens readable") == 1


@pytest.mark.parametrize("verb", ["serve", "console"])
def test_a_bad_file_is_refused_before_anything_is_bound(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(0o604)
    path.write_text(f"ann {ANN}\n")
    with socket.create_server((HOST, 0)) as taken:
        address = f"{HOST}:{taken.getsockname()[1]}"  # to bind it would be exit code 111
        listen = ("-l", address) if verb == "serve" else ()
        done = run(verb, *listen, "--http", address, "--http-token-file", str(path))
    assert (done.code, done.out) == (ExitCode.USAGE, b"")
    assert "chmod o-rw" in done.err
    assert str(path) in done.err


def test_a_server_passes_its_flags_on(tokens: Path) -> None:
    flags = ("--http", f"{HOST}:0", "--http-token-file", str(tokens), "--http-hide-bodies")
    with serving(*flags) as process:
        served = console_of(process)
        assert served.get("/").status == 401
        assert person(served, ANN).get("/").status == 200
        pid = pid_of(process)
        assert b"--http-hide-bodies" in Path(f"/proc/{pid}/cmdline").read_bytes()


# --- What attackers try -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://{host}.evil.example",
        "http://localhost",
        "ftp://{host}",
        "//{host}",
        "{host}",
        "http://{host}:1",
        "http://{host}/",
    ],
)
def test_a_page_of_another_origin_changes_nothing(origin: str, served: Console) -> None:
    ann = person(served, ANN)
    origin = origin.format(host=f"{HOST}:{served.port}")
    for path in ("/logout", "/actions", "/login"):
        answer = ann.post(path, {"token": BOB}, Origin=origin)
        assert answer.status == 403, path
        assert b"Origin" in answer.body
        assert "set-cookie" not in answer.headers
    assert ann.get("/").status == 200


def test_a_form_of_another_session_changes_nothing(served: Console) -> None:
    ann, bob = person(served, ANN), person(served, ANN)
    for token in ("", bob.form_token, ann.form_token[:-1], "ä", "\x00"):
        answer = ann.post("/logout", {"form_token": token})
        assert answer.status == 403, token
        assert b"another session" in answer.body
    assert ann.post("/logout", {"form_token": [bob.form_token, ann.form_token]}).status == 403
    assert ann.get("/").status == 200


def test_the_cookie_changes_nothing_in_the_api(served: Console) -> None:
    ann = person(served, ANN)
    assert ann.get("/api/v1/nothing").status == 404
    for method in ("POST", "DELETE", "PUT", "PATCH"):
        answer = ann.ask(method, "/api/v1/actions", b"{}", Origin=ann.origin, Content_Type="application/json")
        assert answer.status == 401, method


def test_a_name_of_another_s_is_refused_before_anything_is_read(served: Console) -> None:
    ann = person(served, ANN)
    for answer in (
        ann.get("/", Host="evil.example"),
        ann.get("/", Host="127.0.0.1.evil.example"),
        ann.post("/logout", Host="evil.example", Origin="http://evil.example"),
        Person(served).post("/login", {"token": ANN}, Host="evil.example", Origin="http://evil.example"),
    ):
        assert answer.status == 421
        assert "set-cookie" not in answer.headers


def test_a_token_in_an_address_does_nothing(served: Console) -> None:
    for query in (f"token={ANN}", f"access_token={ANN}", f"authorization=Bearer+{ANN}", f"form_token={ANN}"):
        assert served.get(f"/?{query}").status == 401
        assert served.get(f"/api/v1/servers?{query}").status == 401
        answer = Person(served).get(f"/login?{query}")
        assert "set-cookie" not in answer.headers
        assert ANN not in answer.text


@pytest.mark.parametrize(
    "to",
    ["//evil.example", "/\\evil.example", "https://evil.example", "evil.example", "\t//evil.example", "/\n/evil", ""],
)
def test_logging_in_leads_nowhere_else(to: str, served: Console) -> None:
    assert Person(served).log_in(ANN, to=to).headers["location"] == "/"
    assert b'<p><a href="/">' in Person(served).get(f"/login?{urlencode({'to': to})}").body


def test_who_has_not_logged_in_learns_nothing(server: Server, tokens: Path) -> None:
    with console("--url", f"secret-name={url_of(server, '')[1:]}", "--http-token-file", str(tokens)) as served:
        nobody = Person(served)
        for answer in (nobody.get("/login"), nobody.post("/login", {"token": "wrong"}), nobody.get("/?server=x")):
            assert b"secret-name" not in answer.body
            assert b"/tubes" not in answer.body


def test_wrong_tokens_wait_and_nobody_else_does(served: Console) -> None:
    for _ in range(4):
        assert served.get("/", Authorization="Bearer a-wrong-token-of-mine").status == 401

    def others_are_first() -> bool:
        answers: list[Answer] = []
        next_one = threading.Thread(target=lambda: answers.append(Person(served).post("/login", {"token": "wrong"})))
        next_one.start()  # it waits for four or five seconds
        assert person(served, ANN).get("/").status == 200
        assert served.get("/", Authorization=BEARER).status == 200
        was_last = not answers
        next_one.join()
        assert answers[0].status == 401
        assert b"not known" in answers[0].body
        return was_last

    assert any(others_are_first() for _ in range(5))  # on a very busy machine they may need as long


def test_forms_that_are_none_or_too_long_are_refused(served: Console) -> None:
    ann, nobody = person(served, ANN), Person(served)
    assert nobody.post("/login", {"token": "a" * 5_000}).status == 413
    assert nobody.post("/login", {"token": ANN}, Content_Type="text/plain").status == 415
    assert nobody.post("/login", {"token": ANN}, Content_Type="multipart/form-data; boundary=x").status == 415
    assert nobody.ask("POST", "/login", b"token=\xff", Origin=nobody.origin, Content_Type=FORM).status == 400
    assert nobody.ask("POST", "/login", b"token=%ff", Origin=nobody.origin, Content_Type=FORM).status == 400
    assert ann.post("/logout", {"id": ["1"] * 10_000}).status == 400
    assert ann.post("/logout", {"body": "a" * 2_200_000}).status == 413
    assert ann.get("/").status == 200
    assert ann.post("/logout", {"id": ["1"] * 9_000, "body": "a" * 1_900_000}).status == 303


def test_a_form_whose_length_is_a_lie_is_cut_at_the_limit(served: Console) -> None:
    host = f"{HOST}:{served.port}"
    head = f"POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: {FORM}\r\n"
    with connected(served.port) as client:
        client.sendall(
            head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1000\r\n" + b"a" * 4096 + b"\r\n") * 2
        )
        assert client.recv(65_536).startswith(b"HTTP/1.1 413 ")
    with connected(served.port) as client:
        client.sendall(head.encode() + b"Content-Length: 100\r\n\r\ntoken=")
    assert served.get("/health").status == 200


def test_every_answer_has_the_policy_for_browsers(served: Console) -> None:
    ann, nobody = person(served, ANN), Person(served)
    found = {
        answer.status: answer.headers
        for answer in (
            ann.get("/"),
            nobody.get("/"),
            served.get("/"),
            ann.post("/logout", Origin="null"),
            ann.get("/nothing"),
            ann.ask("POST", "/metrics"),
            ann.get("/", Host="evil.example"),
            ann.post("/logout", Content_Type="text/plain"),
        )
    }
    assert set(found) == {200, 303, 401, 403, 404, 405, 421, 415}
    for status, headers in found.items():
        assert headers["content-security-policy"] == POLICY, status
        assert headers["x-content-type-options"] == "nosniff", status
        assert headers["referrer-policy"] == "same-origin", status
        assert headers["cache-control"] == "no-store", status
        assert "server" not in headers


def test_what_comes_with_the_console_may_be_kept(served: Console) -> None:
    page = Person(served).get("/login").text
    address = next(part for part in page.split('"') if part.startswith("/static/style.css?v="))
    kept = served.get(address)
    assert (kept.status, kept.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in kept.headers["cache-control"]
    assert kept.headers["content-security-policy"] == POLICY
    assert served.get("/static/style.css?v=old").headers["cache-control"] == "no-cache"
    for path in ("/static/", "/static/none.css", "/static/..%2f__init__.py", "/static/%2e%2e/table.py", "/static/a/b"):
        assert served.get(path).status == 404, path


def test_a_request_without_a_host_changes_nothing(served: Console) -> None:
    ann = person(served, ANN)
    connection = http.client.HTTPConnection(HOST, served.port, timeout=REPLY_TIMEOUT_S)
    connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"  # type: ignore[attr-defined]
    connection.putrequest("POST", "/logout", skip_host=True)
    cookie = "beanpole-session=" + ann.cookie.partition("=")[2]
    for name, value in {"Cookie": cookie, "Origin": "http://", "Content-Type": FORM, "Content-Length": "0"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()
