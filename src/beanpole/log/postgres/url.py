"""The connection string of a cluster as an operator wrote it: whether it is one, and what is unsafe about it."""

from collections.abc import Iterator, Mapping

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

HERE = ("localhost", "127.0.0.1", "::1")
UNSAFE = ("disable", "allow", "prefer")
"""What `sslmode` may be so that a connection without TLS is taken as well."""


def check_url(url: str) -> None:
    """Raise ValueError with what is wrong with a connection string."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error as error:
        raise ValueError(f"{' '.join(str(error).split())}; write postgresql://USER@HOST/DATABASE") from error


def turned(url: str, count: int, environment: Mapping[str, str]) -> str:
    """Return a connection string whose hosts are tried in another order: the first `count` of them last."""
    hosts = {}
    for key in ("host", "hostaddr", "port"):
        each = str(conninfo_to_dict(url).get(key) or environment.get(f"PG{key.upper()}", "")).split(",")
        first = count % len(each)
        hosts[key] = ",".join(each[first:] + each[:first]) or None
    return make_conninfo(url, **hosts)


def hosts_of(url: str, environment: Mapping[str, str]) -> list[str]:
    """Return connection strings with one host each, of one that may name several."""
    given = conninfo_to_dict(url)
    hosts = {
        key: str(given.get(key) or environment.get(f"PG{key.upper()}", "")).split(",")
        for key in ("host", "hostaddr", "port")
    }
    count = max(map(len, hosts.values()))
    return [
        make_conninfo(url, **{key: each[i % len(each)] for key, each in hosts.items() if any(each)})
        for i in range(count)
    ]


def warnings_of(url: str, environment: Mapping[str, str], *, is_in_argv: bool) -> Iterator[str]:
    """Yield what is unsafe about a connection string, a sentence each. Variables say what it leaves out."""
    given = conninfo_to_dict(url)
    if is_in_argv and given.get("password"):
        yield (
            "the password in the URL can be read by every user of this machine (ps); "
            "write it into ~/.pgpass, or into the variable PGPASSWORD"
        )
    hosts = str(given.get("hostaddr") or given.get("host") or environment.get("PGHOST", "")).split(",")
    far = [each for each in hosts if each and not each.startswith(("/", "@")) and each not in HERE]
    mode = given.get("sslmode") or environment.get("PGSSLMODE") or "prefer"
    if far and mode in UNSAFE:
        yield (
            f"sslmode is {mode}: jobs may be read and changed on their way to {', '.join(far)}; "
            "set sslmode=verify-full in the URL, or at least require"
        )
