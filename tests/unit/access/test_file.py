"""Files of users: what is wrong is said with its line, and who a client is goes by them."""

import os
import pwd
from pathlib import Path

import pytest

from beanpole.access.access import Access, Found, Space
from beanpole.access.file import PATTERNS_MAX, USERS_MAX, load
from beanpole.errors import AccessError
from beanpole.protocol.evidence import Evidence
from beanpole.protocol.rights import Right

WHOLE = """\
[user.root]
unix = ["root", 4242, "no-such-user"]
admin = true

[user.shop]
certificates = ["CN=shop", "DNS:Shop.internal", "URI:spiffe://corp/shop", "sha256:{digest}"]
stats = true
put = ["orders", "mail-*", "orders"]
reserve = ["mail-*"]
look = ["*"]
manage = ["tmp-*"]
rules = ["$x"]
links = ["root"]
connections = 200

[user."sho.p@x"]

[space."mail-*"]
limits = {{ jobs = 1_000_000, bytes = "2GiB", tubes = 100 }}

[space."*"]
limits = {{ bytes = 7 }}
"""
DIGEST = "ab" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.toml"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


def loaded(path: Path, text: str, tokens: Path | None = None) -> Access:
    return load(written(path, text), tokens)


def test_every_key_is_read(path: Path) -> None:
    found = loaded(path, WHOLE.format(digest=DIGEST.upper()))
    root, shop, third = found.users.values()
    assert (root.uids, root.admin, root.stats, root.connections) == (frozenset({0, 4242}), True, False, None)
    assert (shop.admin, shop.stats, shop.links, shop.connections) == (False, True, frozenset({"root"}), 200)
    assert shop.certificates == {"CN=shop", "DNS:shop.internal", "URI:spiffe://corp/shop", f"sha256:{DIGEST}"}
    assert shop.patterns == {
        "put": (b"orders", b"mail-*"),
        "reserve": (b"mail-*",),
        "look": (b"*",),
        "manage": (b"tmp-*",),
        "rules": (b"$x",),
    }
    assert shop.grants.of(b"mail-1") == Right.PUT | Right.RESERVE | Right.LOOK
    assert third.grants.of(b"mail-1") == 0
    assert found.spaces == {
        b"mail-*": Space(b"mail-*", jobs=1_000_000, bytes=2**31, tubes=100),
        b"*": Space(b"*", bytes=7),
    }
    assert list(found.warnings(0)) == [
        "root: unix: this machine has no user 'no-such-user'",
        (
            "nobody can be sho.p@x: it has no certificate, no token and no user of the system, "
            "unless a listener has user=sho.p@x"
        ),
    ]


ONE = "[user.a]\n"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 0, "there is no user: each is a table "),
        ("[user]\n", 1, "there is no user: each is a table "),
        ("user = 1\n", 1, "user: a table is wanted"),
        ("[user.a]\nput = [\n", 3, "this is no TOML: "),
        ("[user.a]\n[user.a]\n", 2, "this is no TOML: "),
        ("[user.a@b]\n", 1, "a name with other signs than letters, digits, _ and - stands in quotes"),
        ("[user.a]\n[user.b]", 2, "this line has no end, so there may be more"),
        (f"{ONE}[users.b]\n", 2, "there is no key 'users': a file of users has user, space"),
        (f"{ONE}[user.'b b']\n", 2, "user: a user's name has 1 to 64 letters, "),
        (f"{ONE}[user.-b]\n", 2, "user: a user's name has 1 to 64 letters, "),
        ("[user]\nb = 1\n", 2, "b: a table is wanted"),
        (f"{ONE}[user.b.c]\n", 2, "b: there is no key 'c': a user has certificates, unix, "),
        (f"{ONE}admin = 1\n", 2, "a: admin: true or false is wanted"),
        (f"{ONE}stats = 'yes'\n", 2, "a: stats: true or false is wanted"),
        (f"{ONE}put = 'x'\n", 2, "a: put: a list is wanted"),
        (f"{ONE}put = [1]\n", 2, "a: put: a list of strings is wanted"),
        (f"{ONE}\nput = ['x', '-x']\n", 3, "a: put: a tube's name has 1 to 200 .*; a \\* may end it: '-x'"),
        (f"{ONE}rules = ['m*l']\n", 2, "a: rules: a tube's name has 1 to 200 "),
        (f"{ONE}look = ['']\n", 2, "a: look: a tube's name has 1 to 200 "),
        (f"{ONE}certificates = ['shop']\n", 2, "a: certificates: CN=…, DNS:…, URI:… of printable ASCII, or "),
        (f"{ONE}certificates = ['CN=schön']\n", 2, "a: certificates: CN=…, "),
        (f"{ONE}certificates = ['sha256:abc']\n", 2, "a: certificates: CN=…, "),
        (f"{ONE}unix = [true]\n", 2, "a: unix: a list of names or numbers of the system's users is wanted"),
        (f"{ONE}unix = [-1]\n", 2, "a: unix: a list of names or numbers"),
        (f"{ONE}unix = [{2**32 - 1}]\n", 2, "a: unix: a list of names or numbers"),
        (f"{ONE}connections = 0\n", 2, "a: connections: a number from 1 to "),
        (f"{ONE}connections = true\n", 2, "a: connections: a number from 1 to "),
        (f"{ONE}links = ['b']\n", 2, "a: links: there is no user 'b'"),
        (f"{ONE}unix = ['root']\n[user.b]\nunix = [0]\n", 4, "b: unix: 0 is that of a"),
        (
            f"{ONE}certificates = ['DNS:X']\n[user.b]\ncertificates = ['DNS:x']\n",
            4,
            "b: certificates: DNS:x is that of a",
        ),
        (f"{ONE}[space]\nx = 1\n", 3, "x: a table is wanted"),
        (f"{ONE}[space.x]\n", 2, "x: limits: jobs, bytes, tubes may be limited, and nothing is"),
        (f"{ONE}[space.x]\njobs = 1\n", 3, "x: there is no key 'jobs': a space has limits"),
        (f"{ONE}[space.x]\nlimits = {{ job = 1 }}\n", 3, "x: limits: there is no key 'job': limits has jobs, "),
        (f"{ONE}[space.x]\nlimits = {{ jobs = '1M' }}\n", 3, "x: limits: jobs: a number from 1 to "),
        (f"{ONE}[space.x]\nlimits = {{ bytes = '1X' }}\n", 3, "x: limits: bytes: a number .*; write it as in 65536"),
        (f"{ONE}[space.'*x']\nlimits = {{ jobs = 1 }}\n", 2, "\\*x: a tube's name has 1 to 200 "),
        (f"{ONE}put = {[f'a{n}' for n in range(PATTERNS_MAX)]}\nlook = ['b']\n", 1, "a: there are more"),
        ("[user]\n" + "".join(f"u{n} = {{}}\n" for n in range(USERS_MAX + 1)), 1, "user: there are more than 10000"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(path: Path, text: str, line: int, why: str) -> None:
    with pytest.raises(AccessError, match=why) as caught:
        loaded(path, text)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_a_file_that_others_may_write_is_refused(path: Path) -> None:
    written(path, ONE).chmod(0o646)
    with pytest.raises(AccessError, match=f"others may write it: chmod o-w {path}"):
        load(path)


def test_a_file_that_is_not_there_or_no_text_is_refused(path: Path) -> None:
    with pytest.raises(AccessError, match=r"access\.toml: No such file"):
        load(path)
    path.write_bytes(b"[user.a]\n# \xff\n")
    path.chmod(0o644)
    with pytest.raises(AccessError, match="this is no UTF-8"):
        load(path)


def test_a_pipe_holds_nobody_up(path: Path) -> None:
    os.mkfifo(path, 0o644)
    with pytest.raises(AccessError, match="this is no regular file"):
        load(path)


def test_a_user_that_a_listener_names_must_be_there(path: Path) -> None:
    written(path, ONE)
    assert list(load(path, listeners=["a"]).warnings(0)) == []
    with pytest.raises(AccessError, match="user: there is no b, and a listener names it"):
        load(path, listeners=["a", "b"])


@pytest.mark.repository
def test_the_example_is_read() -> None:
    found = load(Path(__file__).parents[3] / "examples/access/access.toml")
    assert list(found.users) == ["root", "monitoring", "shop", "shop-worker", "shop-support"]
    assert [each.partition(":")[0] for each in found.warnings(0)] == ["nobody can be shop-worker"]


# --- Who a client is --------------------------------------------------------------------------------------------------


def test_a_second_name_of_a_uid_is_known_by_what_fronts_call_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pwd.getpwnam("root")
    monkeypatch.setattr(pwd, "getpwnam", {"toor": root}.__getitem__)
    access = loaded(path, "[user.a]\nunix = ['toor']\n")
    for found, _ in (access.by_evidence(Evidence(), 0, 0), access.by_evidence(Evidence(uid="root"), 0)):
        assert found is not None


TWO = """
[user.a]
certificates = ["CN=a", "DNS:a"]
unix = [7]
[user.b]
certificates = ["CN=b"]
"""


@pytest.mark.parametrize(
    ("names", "user", "fault"),
    [
        (("CN=a",), "a", ""),
        (("CN=nobody", "DNS:A"), "a", ""),
        (("CN=a", "DNS:a"), "a", ""),
        (("cn=a",), None, "a certificate has cn=a: of no user"),
        (("CN=A",), None, "a certificate has CN=A: of no user"),
        (("CN=a", "CN=b"), None, "a certificate has CN=a, CN=b: names of a and b"),
        (("CN=a\0", "CN=a\x7f", "CN=ä"), None, "a certificate has CN=a\\x00, CN=a\\x7f, CN=\\xe4: of no user"),
        ((), None, "a certificate has no name: of no user"),
    ],
)
def test_a_certificate_is_that_of_the_user_who_has_its_names(
    path: Path, names: tuple[str, ...], user: str | None, fault: str
) -> None:
    access = loaded(path, TWO)
    assert access.by_certificate(names, 9) == (Found(user, names, 9) if user else None)
    assert access.fault_of(names, 0) == fault


def test_a_uid_and_a_listener_have_users(path: Path) -> None:
    access = loaded(path, TWO)
    assert (access.by_uid(7), access.by_uid(0)) == (Found("a", 7), None)
    assert (access.by_listener("b"), access.by_listener("c")) == (Found("b", "b"), None)
    assert [access.fault_of(each, 0) for each in (7, 0, "c")] == ["", "uid 0 is no user", "there is no user c"]


def test_who_was_somebody_is_asked_again(path: Path) -> None:
    before = loaded(path, TWO)
    assert before.keeps(loaded(path, TWO + "put = ['x']\n"))
    for text, still in [
        (TWO.replace("[7]", "[8]"), {"a": "a", "b": "b", "DNS:a": "a"}),
        (TWO.replace(', "DNS:a"', ""), {7: "a", "a": "a", "b": "b"}),
        (TWO.replace('"CN=b"', '"CN=b", "DNS:c"'), {7: "a", "a": "a", "b": "b"}),
        (TWO.partition("[user.b]")[0], {7: "a", "a": "a", "DNS:a": "a"}),
    ]:
        now = loaded(path, text)
        asked = {
            7: before.by_uid(7),
            "a": before.by_listener("a"),
            "b": before.by_listener("b"),
            "DNS:a": before.by_certificate(["DNS:a", "DNS:c"]),
        }
        again = {key: now.again(found, 0) for key, found in asked.items() if found}
        assert {key: found.user for key, found in again.items() if found} == still
        assert not now.keeps(before)


def test_root_is_nobody_unless_the_file_says_so(path: Path) -> None:
    access = loaded(path, TWO)
    assert access.by_uid(0) is None
    assert access.by_uid(os.getuid()) is None
