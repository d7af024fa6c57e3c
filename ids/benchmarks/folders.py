"""Configurations and databases of the services that are measured."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

RULES = """
listen = "127.0.0.1:0"
database = "sqlite:///{folder}/ids.db"
offset = 0
{more}

[http]
listen = "127.0.0.1:0"

[[rule]]
name = "template"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:012}}"
cycle = "day"
batch = 500000

[[rule]]
name = "small"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:012}}"
cycle = "day"
batch = 100

[[rule]]
name = "strict"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:012}}"
cycle = "day"
batch = 1

[[rule]]
name = "snowflake"
kind = "snowflake"

[[rule]]
name = "lua"
lua = "order.lua"
batch = 500000
"""

LUA = """
function min_counter() return 0 end
function max_counter() return 999999999999 end
function reset_seconds() return 86400 end
function create_id(counter, now, salt)
    local number = counter:generate_counter()
    return string.format("O%s%02d%02d%02d%012d", salt, now:year() % 100, now:month(), now:day(), number)
end
"""

NAMED = '{"action":"get","app_name":"n########","rule_name":"RULE","seq":########}'
"""A request with a name of its own."""

FIRST_NAME = 10_000_000
"""The number in the first one."""


def write_rules(folder: Path, rules: str = "", more: str = "") -> None:
    """The configuration, with more rules, and more of what is above them."""
    (folder / "order.lua").write_text(LUA)
    (folder / "rules.toml").write_text(RULES.format(folder=folder, more=more) + rules)


def change_template(folder: Path, rule: str) -> None:
    """Let the numbers of a rule begin with one character more."""
    path = folder / "rules.toml"
    path.write_text(re.sub(f'(name = "{rule}"\ntemplate = ")', r"\1O", path.read_text()))


def many_rules(count: int, maximum: int) -> str:
    """Many rules."""
    return "".join(
        f'[[rule]]\nname = "r{each}"\ntemplate = "R{{year}}{{month:02}}{{day:02}}{{counter:06}}"\ncycle = "day"\n'
        f"maximum = {maximum}\n"
        for each in range(count)
    ).replace("{year}", "{year:04}")


def fill(folder: Path, count: int) -> None:
    """Give the database more counters like the one of the rule `small` that is there."""
    with closing(sqlite3.connect(folder / "ids.db")) as database, database:
        database.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?)"
            " INSERT INTO beanpole_ids_counter (node, rule, app, cycle_s, reserved, time_s, kind, texts, generation)"
            " SELECT node, rule, CAST('n' || (? + n) AS BLOB), cycle_s, reserved, time_s, kind, texts, generation"
            " FROM numbers, beanpole_ids_counter WHERE rule = CAST('small' AS BLOB) AND app = CAST('shop' AS BLOB)",
            (count, FIRST_NAME),
        )
