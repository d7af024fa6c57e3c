"""What is wrong, and what is unsafe, about the connection string of a cluster."""

import pytest

pytest.importorskip("psycopg")

from psycopg.conninfo import conninfo_to_dict

from beanpole.log.postgres.connection import advice_for
from beanpole.log.postgres.url import check_url, hosts_of, turned, warnings_of

FAR = "postgresql://beanpole@db.example.org/beanpole"


@pytest.mark.parametrize("url", [FAR, "host=/run/postgresql dbname=beanpole", "postgresql://a,b:5433/x"])
def test_connection_strings_of_libpq(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize("url", ["postgresql://a b/c", "beanpole", "host"])
def test_what_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="write postgresql://"):
        check_url(url)


@pytest.mark.parametrize(
    ("url", "environment", "is_in_argv", "words"),
    [
        (FAR, {}, True, ["sslmode is prefer"]),
        (FAR + "?sslmode=require", {}, True, []),
        (FAR + "?sslmode=disable", {}, True, ["sslmode is disable"]),
        (FAR, {"PGSSLMODE": "verify-full"}, True, []),
        ("postgresql:///beanpole", {"PGHOST": "db.example.org"}, True, ["db.example.org"]),
        ("postgresql:///beanpole", {}, True, []),
        ("postgresql://beanpole@/x?host=/run/postgresql", {}, True, []),
        ("postgresql://localhost/x", {}, True, []),
        ("postgresql://localhost,far/x", {}, True, ["to far"]),
        ("postgresql://beanpole:secret@localhost/x", {}, True, ["~/.pgpass"]),
        ("postgresql://beanpole:secret@localhost/x", {}, False, []),
    ],
)
def test_what_is_unsafe(url: str, environment: dict[str, str], is_in_argv: bool, words: list[str]) -> None:
    found = list(warnings_of(url, environment, is_in_argv=is_in_argv))
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))
    assert "secret" not in "".join(found)


@pytest.mark.parametrize(
    ("url", "environment", "count", "hosts"),
    [
        ("postgresql://a:1,b:2,c:3/x", {}, 0, {"host": "a,b,c", "port": "1,2,3"}),
        ("postgresql://a:1,b:2,c:3/x", {}, 4, {"host": "b,c,a", "port": "2,3,1"}),
        ("host=a,b port=5 dbname=x", {}, 1, {"host": "b,a", "port": "5"}),
        ("postgresql:///x?host=/p,/q", {}, 1, {"host": "/q,/p"}),
        ("dbname=x", {"PGHOST": "a,b", "PGPORT": "1,2"}, 1, {"host": "b,a", "port": "2,1"}),
        ("dbname=x", {}, 1, {}),
    ],
)
def test_hosts_are_tried_in_turn(url: str, environment: dict[str, str], count: int, hosts: dict[str, str]) -> None:
    assert conninfo_to_dict(turned(url, count, environment)) == {"dbname": "x", **hosts}


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ('connection to server failed: FATAL:  password authentication failed for user "a"', "PGPASSWORD"),
        ("connection to server failed: fe_sendauth: no password supplied", "~/.pgpass"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "a", database "b", no encryption', "pg_hba.conf"),
        ('FATAL:  Peer authentication failed for user "a"', "pg_hba.conf"),
        ('FATAL:  role "a" does not exist', "the role"),
        ('FATAL:  database "b" does not exist', "the database"),
        ("FATAL:  the database system is starting up", "has a primary"),
        ("", "has a primary"),
    ],
)
def test_advice_fits_the_reason(reason: str, advice: str) -> None:
    assert advice in advice_for(reason)


@pytest.mark.parametrize(
    ("url", "environment", "hosts"),
    [
        ("postgresql://a,b:5433/x", {}, [("a", ""), ("b", "5433")]),
        ("host=a,b port=5433 dbname=x", {}, [("a", "5433"), ("b", "5433")]),
        ("dbname=x", {"PGHOST": "/a,/b"}, [("/a", None), ("/b", None)]),
        ("dbname=x", {}, [(None, None)]),
    ],
)
def test_hosts_of_a_connection_string(url: str, environment: dict[str, str], hosts: list[tuple[str, str]]) -> None:
    found = [conninfo_to_dict(each) for each in hosts_of(url, environment)]
    assert [(each.get("host"), each.get("port")) for each in found] == hosts
