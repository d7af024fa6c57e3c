"""Rules: the numbers they make, and those that are refused with the reason."""

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.errors import NeedRangeError, RuleError, RuleFailedError
from beanpole_ids.rules.checkdigit import CHECKS
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.rule import Rule, preview
from beanpole_ids.rules.template import Template

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NEVER = Cycle("never", 0, ZoneInfo("UTC"))
NOON_S = int(datetime(2026, 11, 20, 4, tzinfo=UTC).timestamp())


def rule(folder: Path, text: str) -> Rule:
    path = folder / "rules.toml"
    path.write_text(f'[[rule]]\nname = "r"\n{text}\n')
    return load(path).rules["r"]


def lua(folder: Path, body: str, maximum: str = "999", reset: str = "86400", minimum: int = 0) -> Rule:
    (folder / "r.lua").write_text(
        f"function min_counter() return {minimum} end\n"
        f"function max_counter() return {maximum} end\n"
        f"function reset_seconds() return {reset} end\n"
        f"function create_id(counter, now, salt)\n{body}\nend\n"
    )
    return rule(folder, 'lua = "r.lua"')


def make(made_by: Rule, value: int = 0, time_s: int = NOON_S, salt: bytes = b"") -> str:
    (made,), _ = made_by.make(value, 1_000, 1, time_s, salt)
    return made


DAILY = 'return string.format("%04d%02d%02d-%03d", now:year(), now:month(), now:day(), counter:generate_counter())'

# --- Templates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('template = "O{year:02}{month:02}{day:02}{counter:06}"\ncycle = "day"', 17, "O261120000017"),
        ('template = "{year:04}{yday:03}{counter:03}"\ncycle = "day"', 17, "2026324017"),
        ('template = "{{x}}{counter:03}"', 17, "{x}017"),
        ('template = "{year:02}{month:02}{day:02}{hour:02}-{counter:02}"\ncycle = "hour"', 7, "26112004-07"),
        ('template = "{counter:03}"\nalphabet = "01"\nmaximum = 7', 5, "101"),
        ('template = "{year:04}-{counter:03}"\ncycle = "year"', 7, "2026-007"),
        ('template = "{week_year:04}W{week:02}-{counter:02}"\ncycle = "week"', 7, "2026W47-07"),
        ('template = "{year:02}{month:02}{day:02}-{counter:02}"\ncycle = "week"', 7, "261120-07"),
        ('template = "{year:02}{yday:03}-{counter:02}"\ncycle = "week"', 7, "26324-07"),
        ('template = "{counter:04}"\ncheck = "damm"', 572, "05724"),
        ('template = "T{counter:010}"\ncheck = "luhn"', 7992739871, "T79927398713"),
    ],
)
def test_template_makes(tmp_path: Path, text: str, value: int, expected: str) -> None:
    assert make(rule(tmp_path, text), value) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('template = "O{year:02}{month:02}{counter:06}"\ncycle = "day"', "does not show the day"),
        ('template = "O{month:02}{day:02}{counter:06}"\ncycle = "day"', "does not show the year"),
        ('template = "{year:04}{counter:06}"\ncycle = "month"', "does not show the month"),
        ('template = "{year:04}{month:02}{day:02}{counter:06}"\ncycle = "hour"', "does not show the hour"),
        ('template = "{year:04}{month:02}{day:02}{hour:02}{counter:06}"\ncycle = 90', "does not show the minute"),
        ('template = "{counter:03}"\nmaximum = 1000', "3 characters reach 999"),
        ('template = "O{year:02}"', "counter} once"),
        ('template = "{counter:03}{counter:03}"', "counter} once"),
        ('template = "{counter}"', "needs a width"),
        ('template = "{counter:>6}"', "needs a width"),
        ('template = "{counter:03"', "can't be read"),
        ('template = "{counter:0999999999}"', "can be 64 wide at the most"),
        ('template = "{counter:00}"', "needs a width"),
        ('template = "{counter.x:03}"', "no field"),
        ('template = "{yeer}{counter:03}"', "no field 'yeer'"),
        ('template = "{}"', "no field ''"),
        ('template = "{year:03}{counter:03}"', "wide"),
        ('template = "{counter:03}"\ncycle = "decade"', "cycle must be"),
        ('template = "{month:02}{counter:06}"\ncycle = "year"', "does not show the year"),
        ('template = "{week_year:04}{counter:06}"\ncycle = "year"', "does not show the year"),
        ('template = "{year:04}{week:02}{counter:06}"\ncycle = "week"', "does not show the week_year"),
        ('template = "{week_year:04}{counter:06}"\ncycle = "week"', "does not show the week"),
        ('template = "{week_year:04}{month:02}{day:02}{counter:06}"\ncycle = "week"', "does not show the week"),
        ('template = "{year:04}{month:02}{counter:06}"\ncycle = "week"', "does not show the week_year"),
        ('template = "{week_year:04}{week:02}{counter:06}"\ncycle = "day"', "does not show the year"),
        ('template = "{counter:03}"\ncycle = -1', "cycle must be"),
        ('template = "{counter:03}"\nalphabet = "aba"', "different characters"),
        ('template = "{counter:03}"\ncheck = "crc"', "no check digit"),
        ('template = "{counter:03}"\nminimum = 999', "minimum < maximum"),
        ('template = "{counter:03}"\nbatch = 0', "batch must be"),
        ('template = "{counter:03}"\ntime_zone = "Mars"', "no time zone"),
        ('template = "{counter:03}"\nsteps = 3', "unknown key 'steps'"),
        ('template = "{counter:03}"\nmaximum = "9"', "must be a whole number"),
        ('lua = "absent.lua"', "cannot read"),
        ("", "it needs a template, a kind or a lua"),
    ],
)
def test_rule_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    """Hole 20: formats coarser than the cycle were not checked."""
    with pytest.raises(RuleError, match=re.escape(reason)) as error:
        rule(tmp_path, text)
    assert "rule 'r'" in str(error.value)


@pytest.mark.parametrize(("step", "offset"), [(0, 0), (2, 2), (2, -1), (-1, 0)])
def test_step_and_offset_must_be_in_range(tmp_path: Path, step: int, offset: int) -> None:
    """Hole 14: a mismatch gave the same number always."""
    path = tmp_path / "rules.toml"
    path.write_text(f'step = {step}\noffset = {offset}\n[[rule]]\nname = "r"\ntemplate = "{{counter:03}}"')
    with pytest.raises(RuleError, match=r"step|offset"):
        load(path)


# --- Check digits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("luhn", "7992739871", "3"),
        ("luhn", "O-7992739871", "3"),
        ("damm", "572", "4"),
        ("iso7064-11-10", "0794", "5"),
        ("iso7064-37-36", "A12425GABC1234002", "M"),
        ("iso7064-97-10", "794", "44"),
        ("iso7064-97-10", "BBB", "32"),
    ],
)
def test_check_digit(name: str, text: str, expected: str) -> None:
    if (name, text) == ("iso7064-97-10", "BBB"):
        assert int("".join(str(int(each, 36)) for each in text + CHECKS[name][0](text))) % 97 == 1
    else:
        assert CHECKS[name][0](text) == expected


@pytest.mark.parametrize("name", CHECKS)
@settings(deadline=None)  # machines are shared
@given(
    digits=st.text("0123456789", min_size=1, max_size=12), place=st.integers(0, 11), other=st.sampled_from("0123456789")
)
def test_check_digit_finds_a_wrong_digit(name: str, digits: str, place: int, other: str) -> None:
    place %= len(digits)
    wrong = digits[:place] + other + digits[place + 1 :]
    assert (CHECKS[name][0](wrong) == CHECKS[name][0](digits)) == (wrong == digits)


@pytest.mark.parametrize(
    ("check", "alphabet", "blind"),
    [
        ("luhn", "ABCDEF", "ABCDEF"),
        ("luhn", "0123456789ABCDEF", "ABCDEF"),
        ("damm", "ABCDEF", "ABCDEF"),
        ("iso7064-11-10", "0123456789X", "X"),
        ("iso7064-37-36", "0123456789abc", "abc"),
        ("iso7064-97-10", "0123456789Bé", "é"),
    ],
)
def test_alphabet_that_a_check_digit_does_not_look_at_is_refused(check: str, alphabet: str, blind: str) -> None:
    """Its digits were the same for all numbers."""
    with pytest.raises(RuleError, match=f"{check} does not look at '{blind}'"):
        Template("N{counter:03}", NEVER, 9, alphabet, check)


@pytest.mark.parametrize("check", CHECKS)
def test_each_character_that_it_looks_at_counts(check: str) -> None:
    made, _ = Template("é{counter:01}", NEVER, 9, CHECKS[check][1], check).make(0, 10, 10, 0, b"")
    assert len({each[2:] for each in made}) == 10
    assert set(CHECKS[check][1]) >= set("0123456789")


# --- Lua --------------------------------------------------------------------------------------------------------------


def test_lua_makes_what_the_template_makes() -> None:
    own, original = load(EXAMPLES / "rules.toml").rules, load(EXAMPLES / "config.json").rules
    for name in ("order", "task"):
        for value in (0, 1, 42, 9999):
            for time_s in (NOON_S, 0, 2**32):
                for salt in (b"", b"42"):
                    local = datetime.fromtimestamp(time_s, original[name].cycle.zone)
                    same_s = int(local.replace(tzinfo=ZoneInfo("Asia/Shanghai")).timestamp())
                    assert make(own[name], value, same_s, salt) == make(original[name], value, time_s, salt)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 'O' .. now:year()", "without generate_counter"),
        ("counter:generate_counter() return now:year() .. now:month() .. now:day()", "of the counters 0 and 1"),
        ("return now:year() .. now:month() .. '-' .. counter:generate_counter()", "in two cycles"),
        ("return now:month() .. '-' .. now:day() .. '-' .. counter:generate_counter()", "in two cycles"),
        ("counter:generate_counter()", "made no number"),
        ("counter:generate_counter() return ''", "made no number"),
        ("return counter.nothing()", "attempt to call"),
        ("while true do end", "too m"),
        ("while true do pcall(function() while true do end end) end", "too m"),
        ("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end", "memory"),
        ("return ('x'):rep(1e9)", "memory"),
        ("return io.open('/etc/passwd')", "global 'io'"),
        ("return os.execute('true')", "field 'execute'"),
        ("return os.getenv('HOME')", "field 'getenv'"),
        ("return require('os')", "global 'require'"),
        ("return debug.sethook()", "global 'debug'"),
        ("return loadstring('return 1')", "global 'loadstring'"),
        ("return load(function() end)", "global 'load'"),
        ("return dofile('/etc/passwd')", "global 'dofile'"),
        ("return string.dump(create_id)", "field 'dump'"),
        ("return python.eval('1')", "global 'python'"),
        ("return coroutine.create(create_id)", "global 'coroutine'"),
        ("return getfenv(0)", "global 'getfenv'"),
        ("return math.random(9)", "field 'random'"),
        ("math.randomseed(1)", "field 'randomseed'"),
        ("return os.clock()", "field 'clock'"),
        ("return newproxy(true)", "global 'newproxy'"),
    ],
)
def test_lua_is_refused_with_the_reason(tmp_path: Path, body: str, reason: str) -> None:
    """Hole 20: Lua that ignores the counter was not checked; and the sandbox."""
    with pytest.raises(RuleError, match=re.escape(reason)):
        lua(tmp_path, body)


@pytest.mark.parametrize(
    ("body", "maximum", "reason"),
    [
        ("counter:generate_counter() n = (n or 0) + 1 return n", "999999", "would repeat"),
        ("n = (n or 0) + counter:generate_counter() return n", "999999", "would repeat"),
        ("made = made or now:day() return made .. '-' .. counter:generate_counter()", "9", "nothing but counter"),
        ("counter:generate_counter() return tostring({})", "999999", "would repeat"),
        ("return counter:generate_counter() % 10000", "999999", "of the counters"),
        ("return counter:generate_counter() % 4096", "999999", "of the counters"),
        ("return string.sub(string.format('%06d', counter:generate_counter()), -5)", "999999", "of the counters"),
        ("return salt .. tostring(counter:generate_counter())", "999999", "of the counters"),
        ("return counter:generate_counter() .. salt", "999999", "of the counters"),
    ],
)
@pytest.mark.parametrize("minimum", [0, 1])
def test_lua_that_is_made_of_something_else_is_refused(
    tmp_path: Path, body: str, maximum: str, reason: str, minimum: int
) -> None:
    """Of few counters, of which each is made once, all of these look good."""
    with pytest.raises(RuleError, match=reason):
        lua(tmp_path, body, maximum, "0", minimum)


def test_lua_may_refuse_a_salt(tmp_path: Path) -> None:
    made_by = lua(tmp_path, f"if #salt == 1 then error('salt') end {DAILY} .. salt")
    assert make(made_by, salt=b"ab") == "20261120-000ab"


@pytest.mark.parametrize(
    ("maximum", "reset", "reason"),
    [
        ("'x'", "0", "max_counter"),
        ("1.5", "0", "whole"),
        ("2^53 + 2", "0", "2^53"),
        ("9", "nil", "reset"),
        ("0", "0", "minimum"),
    ],
)
def test_lua_limits_must_make_sense(tmp_path: Path, maximum: str, reset: str, reason: str) -> None:
    with pytest.raises(RuleError, match=re.escape(reason)):
        lua(tmp_path, DAILY, maximum, reset)


def test_lua_number_that_lua_rounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="of the counters"):
        lua(tmp_path, "return counter:generate_counter() .. ''", "2^53 - 1", "0")


def test_lua_compiled_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.lua").write_bytes(b"\x1bLua")
    with pytest.raises(RuleError, match="compiled"):
        rule(tmp_path, 'lua = "r.lua"')


def test_lua_has_one_clock(tmp_path: Path) -> None:
    body = "return os.time() .. os.date('!-%Y-%m-%d %H') .. '-' .. counter:generate_counter()"
    assert make(lua(tmp_path, body), 3) == f"{NOON_S}-2026-11-20 04-3"


def test_lua_numbers_become_text(tmp_path: Path) -> None:
    assert make(lua(tmp_path, "return counter:generate_counter()", "999", "0"), 42) == "42"


def test_lua_salt_is_bytes(tmp_path: Path) -> None:
    made = make(lua(tmp_path, DAILY + " .. salt"), salt=b"\xff\xe4")
    assert made.encode("utf-8", "surrogateescape") == b"20261120-000\xff\xe4"


def test_lua_that_runs_out_of_counters_says_so(tmp_path: Path) -> None:
    twice = lua(tmp_path, "pcall(function() counter:generate_counter() end) " + DAILY)
    assert twice.make(5, 4, 2, NOON_S, b"") == (["20261120-006", "20261120-008"], 4)
    with pytest.raises(NeedRangeError):
        twice.make(5, 3, 2, NOON_S, b"")
    assert make(twice, 5) == "20261120-006"


def test_lua_error_while_making_is_an_answer(tmp_path: Path) -> None:
    """However long it is: it overflowed a buffer of the original."""
    made_by = lua(tmp_path, f"if salt ~= '' then error('no salt' .. ('x'):rep(tonumber(salt)), 0) end {DAILY}")
    for size in (b"0", b"5000", b"200000"):
        with pytest.raises(RuleFailedError, match="no salt") as error:
            make(made_by, salt=size)
        assert len(str(error.value)) < 600
    assert make(made_by) == "20261120-000"


# --- Configurations ---------------------------------------------------------------------------------------------------


def test_original_configuration() -> None:
    config = load(EXAMPLES / "config.json")
    assert (config.host, config.port, config.step, config.offset) == ("127.0.0.1", 11310, 1, 0)
    assert config.database == "mysql+pymysql://ids:secret@127.0.0.1:3306/ids?charset=utf8mb4"
    assert {name: each.counting.batch for name, each in config.rules.items()} == {"order": 100, "task": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no JSON object"),
        ("{}", "lacks id_step"),
        ('{"id_step": 1, "id_offset": 0, "rules": []}', "no rule"),
        ('{"id_step": "1"}', "id_step must be a whole number"),
    ],
)
def test_original_configuration_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(RuleError, match=reason):
        load(path)


def test_own_configuration(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        'listen = "[::1]:99"\nstep = 4\noffset = 3\n[[rule]]\nname = "r"\ntemplate = "{counter:03}"\nbatch = 2'
    )
    config = load(path)
    assert (config.host, config.port, config.step, config.offset) == ("::1", 99, 4, 3)
    assert preview(config.rules["r"], 0) == {"first": "003", "next": "007", "last": "999"}


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ('template = "{counter:02}"', 1),
        ('template = "{counter:04}"', 100),
        ('template = "{counter:05}"\nmaximum = 50000', 500),
        ('template = "{counter:06}"', limits.BATCH_DEFAULT),
        ('template = "{counter:02}"\nbatch = 90', 90),
    ],
)
def test_batch_is_a_small_part_of_a_cycle(tmp_path: Path, text: str, batch: int) -> None:
    """A crash took all numbers of a day with fewer than a thousand of them."""
    assert rule(tmp_path, text).counting.batch == batch


def test_batch_of_a_node_is_a_part_of_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('step = 4\n[[rule]]\nname = "r"\ntemplate = "{counter:04}"\n')
    assert load(tmp_path / "rules.toml").rules["r"].counting.batch == 25
    assert lua(tmp_path, DAILY, maximum="9999").counting.batch == 100


def test_batch_of_the_original_is_one_unless_it_says_otherwise(tmp_path: Path) -> None:
    for name in ("config.json", "order.lua", "task.lua"):
        text = (EXAMPLES / name).read_text()
        (tmp_path / name).write_text(text.replace(', "batch_save": 100', ""))
    assert load(tmp_path / "config.json").rules["order"].counting.batch == 1


@pytest.mark.parametrize("offset", ["", "offset = 0", "offset = 3", 'offset = "lease"'])
def test_snowflake_needs_the_number_of_its_node(tmp_path: Path, offset: str) -> None:
    """Two nodes with databases of their own were both 0 by default, and made the same numbers."""
    path = tmp_path / "rules.toml"
    path.write_text(f'step = 4\n{offset}\n[[rule]]\nname = "row"\nkind = "snowflake"\n')
    if offset:
        found = load(path, leased=2)
        assert (found.offset, found.is_leased) == {"0": (0, False), "3": (3, False)}.get(offset[-1], (2, True))
    else:
        with pytest.raises(RuleError, match=r"rule 'row': a snowflake .* write offset = 0"):
            load(path)


@pytest.mark.parametrize("offset", ['"free"', '"0"', "1.5"])
def test_offset_is_a_number_or_leased(tmp_path: Path, offset: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'offset = {offset}\n[[rule]]\nname = "a"\nkind = "ulid"\n')
    with pytest.raises(RuleError, match='offset must be a whole number or "lease", not ' + offset.replace('"', "'")):
        load(path)


def test_other_rules_need_no_number_of_a_node(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname = "a"\nkind = "ulid"\n[[rule]]\nname = "b"\ntemplate = "snowflake {counter:03}"')
    assert set(load(path).rules) == {"a", "b"}


@pytest.mark.parametrize("text", ["x", "", 'listen = "x"', "rule = 1", "[[rule]]\nname = 1", "rulez = 1"])
def test_own_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(RuleError, match=r"rules.toml"):
        load(path)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", "sqlite:///{folder}/ids.db"),
        ('database = "sqlite:///a/b.db?timeout=1"', "sqlite:///{folder}/a/b.db?timeout=1"),
        ('database = "sqlite+pysqlite:///b.db"', "sqlite+pysqlite:///{folder}/b.db"),
        ('database = "sqlite:////var/b.db"', "sqlite:////var/b.db"),
        ('database = "postgresql://me@here/b"', "postgresql://me@here/b"),
    ],
)
def test_file_of_numbers_is_found_from_the_configuration(tmp_path: Path, written: str, meant: str) -> None:
    """A server that was started in another folder made a new file, and all numbers came again."""
    path = tmp_path / "rules.toml"
    path.write_text(f'{written}\n[[rule]]\nname = "x"\ntemplate = "{{counter:04}}"\n')
    assert load(path).database == meant.format(folder=tmp_path)


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="two rules"):
        rule(tmp_path, 'template = "{counter:03}"\n[[rule]]\nname = "r"\ntemplate = "{counter:03}"')
