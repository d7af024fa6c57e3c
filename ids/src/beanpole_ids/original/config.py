"""The configuration of the original: a JSON file with rules in Lua."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.rules.config import NO_RULES, Config, read_audit_log, read_http
from beanpole_ids.rules.limit import read_limits, read_networks, read_new_names
from beanpole_ids.rules.reader import Common, Table, lua_rule, read_apps, read_code, unique, zone_named
from beanpole_ids.rules.rule import Rule, read_again

LOG_LEVEL_INFO = 3  # the original's `log_level`: 1 is error, 2 warning, 3 information


def read_original(found: dict[str, Any] | None, folder: Path, known: Mapping[str, Rule] = NO_RULES) -> Config:
    """Read a configuration of the original. What only its implementation needs is accepted and not used."""
    if found is None:
        raise RuleError("it is no JSON object")
    table = Table(found, "the configuration")
    step, offset = table.take("id_step", int), table.take("id_offset", int)
    zone = zone_named("local")
    rules = []
    for each in table.take("rules", list):
        rule = Table(each, "a rule of the configuration")
        written = repr(each)
        name = rule.take("name", str)
        batch = min(max(1, rule.take("batch_save", int, 1)), limits.BATCH_MAX)
        try:
            common = Common(name, step, offset, batch, zone, rule.take("accept", str, ""))
            path, apps = folder / rule.take("lua_file", str), read_apps(rule)
            code = read_code(path)
            read = partial(lua_rule, common, path, code, apps)
            rules.append(read_again(known, name, (written, step, offset, zone, code), read))
        except (RuleError, ValueError) as error:
            raise RuleError(f"rule {name!r}: {error}") from error
    by_name = unique(rules)
    return Config(
        rules=by_name,
        database=database_of(Table(table.take("database", dict), "database")),
        host=table.take("service_host", str),
        port=table.take("service_port", int),
        http=read_http(table),
        step=step,
        offset=offset,
        limits=read_limits(table, by_name, "local"),
        trusted_networks=read_networks(table),
        new_names_per_s=read_new_names(table),
        audit_log=read_log(table, folder),
    )


def read_log(table: Table, folder: Path) -> str:
    """Read where the original logs what it updates; at its level of information and beyond, it is our audit log."""
    level, path = table.take("log_level", int, 0), read_audit_log(table, "log_prefix", folder)
    return path if level >= LOG_LEVEL_INFO and path != os.devnull else ""


def database_of(table: Table) -> str:
    """Return the address of the original's database; a host with a slash is a socket."""
    host, port = table.take("host", str), table.take("port", int)
    user, password = quote(table.take("user", str), safe=""), quote(table.take("password", str), safe="")
    name = quote(table.take("dbname", str), safe="")
    where, more = (f"{host}:{port}", "") if "/" not in host else ("", f"&unix_socket={quote(host, safe='')}")
    return f"mysql+pymysql://{user}:{password}@{where}/{name}?charset=utf8mb4{more}"
