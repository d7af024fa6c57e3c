"""The process and the sandbox of rules in Lua: whatever a rule does, it is stopped; what it may use is as in Lua."""

import tracemalloc
from pathlib import Path

import pytest

from beanpole_ids import limits
from beanpole_ids.errors import NoNumberError, RuleCostError, RuleError
from beanpole_ids.rules.lua import PROCESS
from tests.unit.rules.test_reader import DAILY, NOON_S, lua, make

ENDLESS = {
    "Lua": "while true do end",
    "Lua that catches errors": "while true do pcall(error, {}) end",
    "a search in C": "return (('a'):rep(9999):find('a*a*a*a*b'))",
    "searches in C that catch errors": "while true do pcall(string.find, ('a'):rep(999), '.-.-.-b') end",
    "sorting in C": "local t = {} for i = 1, 60000 do t[i] = i end while true do table.sort(t) end",
    "empty texts in C": "return (''):rep(2^31 - 1) .. (''):rep(2^31 - 1)",
    "a handler of errors": "xpcall(error, function() while true do end end)",
}
FAILING = {
    "the text of an error": "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "a text": "local s = 'x' while true do s = s .. s end",
    "a long text": "return ('x'):rep(2^31)",
    "a table": "g = g or {} while true do g[#g + 1] = {} end",
    "what it keeps": "g = {} for i = 1, 30000 do g[i] = {} end return counter:generate_counter()",
    "the stack of Lua": "local function f() return 1 + f() end return f()",
    "the stack of C": "return (('a'):rep(999999):match(('a?'):rep(999999)))",
}
EVIL = ENDLESS | FAILING


@pytest.mark.parametrize("name", EVIL)
def test_evil_rule_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuleError, match="rule 'r'"):
        lua(tmp_path, EVIL[name])


@pytest.mark.parametrize("name", EVIL)
def test_evil_rule_ends_with_an_error(tmp_path: Path, name: str) -> None:
    """A rule that turns evil with some salt, or on some day, is stopped at each request, and goes on with others."""
    made_by = lua(
        tmp_path,
        f"local function evil() {EVIL[name]} end if salt == 'evil' then evil() error('it ends', 0) end {DAILY} .. salt",
    )
    for _ in range(2):
        with pytest.raises(RuleCostError if name in ENDLESS else NoNumberError) as error:
            make(made_by, salt=b"evil")
        assert ("was stopped: too much time" in str(error.value)) == (name in ENDLESS)
        assert make(made_by, salt=b"ab") == "20261120-000ab"


def test_functions_that_are_missing_are_not_made(tmp_path: Path) -> None:
    """Nothing stopped what a rule did when it was looked for."""
    made_by = lua(tmp_path, DAILY)
    assert made_by.lua
    made_by.lua.code = b"setmetatable(_G, {__index = function() while true do end end})"
    PROCESS.close()
    with pytest.raises(NoNumberError, match="call a nil value"):
        make(made_by)
    with pytest.raises(RuleError, match="call a nil value"):
        made_by.lua.ask("min_counter")


def test_number_that_fits_into_no_reply_is_not_copied(tmp_path: Path) -> None:
    """A thousand times one text takes little memory of Lua, and took gigabytes of ours."""
    made_by = lua(
        tmp_path,
        f"local made = {DAILY[7:]} if salt == 'evil' then return ('x'):rep(1000000) end "
        "return made .. (salt == 'long' and ('x'):rep(60000) or '')",
    )
    tracemalloc.start()
    for salt in (b"evil", b"long"):
        with pytest.raises(NoNumberError, match=r"of more than 65507 bytes|not enough memory"):
            made_by.make(0, 1000, 100, NOON_S, salt)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_rule_that_is_stopped_begins_afresh(tmp_path: Path) -> None:
    """What a rule keeps of a call that was stopped half-way must not shape the next number."""
    body = f"if salt == 'evil' then format, string.format = string.format while true do end end {DAILY} .. salt"
    made_by = lua(tmp_path, body)
    with pytest.raises(RuleCostError, match="ask for fewer numbers at a time"):
        made_by.make(0, 9, 2, NOON_S, b"evil")
    assert make(made_by, salt=b"ab") == "20261120-000ab"


def test_garbage_is_not_kept(tmp_path: Path) -> None:
    made_by = lua(tmp_path, f"local s = ('x'):rep(100000) for i = 1, 3 do local t = s .. i end {DAILY} .. #salt")
    for _ in range(50):
        assert make(made_by, salt=b"ab") == "20261120-0002"


def test_code_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=f"has more than {limits.LUA_CODE_BYTES_MAX} bytes"):
        lua(tmp_path, DAILY + " --" + "x" * limits.LUA_CODE_BYTES_MAX)


def test_process_that_can_not_be_reached_is_started_again(tmp_path: Path) -> None:
    made_by = lua(tmp_path, DAILY)
    assert PROCESS.child
    PROCESS.child.process.kill()
    assert make(made_by) == "20261120-000"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "local ok, e = xpcall(function() error('a', 0) end, function(e) return e .. 'b' end) return e",
            "ab",
        ),
        ("local ok, a, b = xpcall(function() return 1, 2 end, print) return tostring(ok) .. a .. b", "true12"),
        ("local ok, a, b = pcall(function() return 1, nil end) return tostring(ok) .. a .. tostring(b)", "true1nil"),
        ("local ok, e = pcall(error, {1}) return tostring(ok) .. e[1]", "false1"),
        ("local t = {3, 1, 2} table.sort(t) return table.concat(t)", "123"),
        ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t)", "321"),
        ("local t = {1} table.insert(t, 2) table.insert(t, 1, 3) return table.concat(t)", "312"),
        ("return ('ab'):rep(3) .. (''):rep(9) .. ('x'):rep(0) .. ('x'):rep(-1) .. ('y'):rep('2')", "abababyy"),
        ("return os.date('%Y-%m-%d %H:%M', os.time() - 86400)", "2026-11-19 04:00"),
        ("return os.date('*t').year", "2026"),
        ("return os.date('!%d')", "20"),
        ("local n = 0 for k, v in pairs({1, 2, x = 3}) do n = n + v end return n", "6"),
    ],
)
def test_sandbox_has_what_lua_has(tmp_path: Path, code: str, expected: str) -> None:
    shown = "(salt == 'show' and f() .. '/' or '') .. counter:generate_counter()"
    made_by = lua(tmp_path, f"local function f() {code} end return {shown}", reset="0")
    assert make(made_by, 7, salt=b"show") == f"{expected}/7"
