"""The sandbox of rules in Lua: whatever a rule does, it is stopped; and what it may use means what it means in Lua."""

import re
import time
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lupa import lua51

from beanpole_ids.errors import NoNumberError, RuleCostError, RuleError
from beanpole_ids.rules.lua import PATTERNS, LuaRule
from tests.unit.rules.test_reader import DAILY, NOON_S, lua, make

CPU_S_MAX = 10
"""Far more than any of these takes, and far less than they took."""

HOLES = ", ".join(f"[{2**i}] = 1" for i in range(30))
"""A table of thirty, whose length is 2^29 to Lua."""

EVIL = (
    # Searches back and forth.
    "return salt:match('^%s*(.-)%s*$') .. ('-'):rep(2000):find('.-.-.-.-b')",
    "return (('-'):rep(2000):match('(.-)-(.-)-(.-)-(.-)x'))",
    "return (('a'):rep(200):find(('a?'):rep(200) .. ('a'):rep(200)))",
    "return (('a'):rep(9999):find('a*a*a*a*b'))",
    "return (('a'):rep(9999):gsub('a*a*a*b', ''))",
    "for x in ('a'):rep(9999):gmatch('.*.*.*b') do end",
    "return (('('):rep(99999):find('%b()'))",
    "return (('a'):rep(99999):find(('a'):rep(49999) .. 'b', 1, true))",
    "return (('ab'):rep(999):find('(.-)%1%1%1(.-)%2%2c'))",
    "return (('a'):rep(99999):match(('a?'):rep(99999)))",
    "return (('a'):rep(99999):match(('(a'):rep(31)))",
    "while true do pcall(string.find, ('a'):rep(60), '.-.-.-b') end",
    # Long calls of C.
    "return (''):rep(2^31 - 1)",
    "return ('x'):rep(2^31)",
    "return ('x'):rep(0/0)",
    "local t = {} for i = 1, 60000 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 60000 do t[i] = 1 end while true do table.sort(t, rawequal) end",
    "local s, t = ('x'):rep(99999), {} for i = 1, 9999 do t[i] = s .. i % 9 end table.sort(t) while true do end",
    "local t = {} for i = 1, 60000 do t[i] = i end while true do table.insert(t, 1, 1) end",
    "table.insert({}, -2^31, 1)",
    "table.insert({}, 0/0, 1)",
    "local s = ('x'):rep(99999) local i = 0 while true do i = i + 1 local t = s .. i end",
    "local s = ('x'):rep(99999) while true do local t = s:upper():lower():reverse() end",
    "local s = ('%%'):rep(49999) while true do local t = s:format() end",
    "local s = ('x'):rep(99999) while true do local t = s:byte(1, 7000) end",
    "local t = {} for i = 1, 9999 do t[i] = 'x' end while true do local s = table.concat(t) end",
    "local t = {} for i = 1, 60000 do t[i] = i end for i = 1, 60000 do t[i] = nil end while true do next(t) end",
    "local s = ('%c'):rep(9999) while true do local t = os.date(s) end",
    "while true do os.time({year = 2^30, month = 2^30, day = 2^30}) end",
    "local s, t = ('%99.99f'):rep(2000), {} for i = 1, 2000 do t[i] = 1e300 end while true do s:format(unpack(t)) end",
    f"table.remove({{{HOLES}}}, 1)",
    f"table.insert({{{HOLES}}}, 1, 1)",
    "local t = {nil, 1} for i = 0, 28 do t[3 * 2^i] = 1 end table.foreachi(t, select) while true do end",
    "return (('a'):rep(999999):match('[' .. ('b'):rep(20000) .. 'a]*$'))",
    # Memory.
    "local s = 'x' while true do s = s .. s end",
    "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
    "g = g or {} while true do g[#g + 1] = {} end",
    "g = g or {} pcall(function() while true do g[#g + 1] = {} end end) return counter:generate_counter()",
    "g = g or {} pcall(function() while true do g[#g + 1] = ('x'):rep(#g) end end) error(g)",
    # The stack, and what catches errors.
    "local function f() return 1 + f() end return f()",
    "local function f() return pcall(f) end while true do f() end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
    "local t = setmetatable({}, {__tostring = function() while true do end end}) return tostring(t)",
    "return (('x'):rep(999):gsub('.', function() while true do end end))",
    "while true do pcall(error, {}) end",
    "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "getmetatable('').__index = function() while true do end end return ('x').y",
)


@pytest.mark.parametrize("body", EVIL)
def test_evil_rule_is_refused(tmp_path: Path, body: str) -> None:
    """Functions of C execute no instruction: no limit of instructions stopped them, and SIGTERM was not seen."""
    before_s = time.process_time()
    with pytest.raises(RuleError, match="rule 'r'"):
        lua(tmp_path, body)
    assert time.process_time() - before_s < CPU_S_MAX


@pytest.mark.parametrize("body", EVIL)
def test_evil_rule_ends_with_an_error(tmp_path: Path, body: str) -> None:
    """A rule that turns evil with some salt, or on some day, is stopped at each request, and others go on."""
    made_by = lua(
        tmp_path,
        f"local function evil() {body} end if salt == 'evil salt' then evil() error('it ends', 0) end {DAILY} .. salt",
    )
    before_s = time.process_time()
    for _ in range(2):
        with pytest.raises(NoNumberError):
            make(made_by, salt=b"evil salt")
        assert make(made_by, salt=b"ab") == "20261120-000ab"
    assert time.process_time() - before_s < CPU_S_MAX


def test_functions_that_are_missing_are_not_made() -> None:
    """Nothing stopped what a rule did when it was looked for."""
    code = b"setmetatable(_G, {__index = function() for i = 1, 3e9 do end end})"
    with pytest.raises(RuleError, match="call a nil value"):
        LuaRule(code, "r.lua").ask("min_counter")
    with pytest.raises(lua51.LuaError, match="call a nil value"):
        LuaRule(code, "r.lua")._create(0, 1, 1, 1, b"")


def test_number_that_fits_into_no_reply_is_not_copied(tmp_path: Path) -> None:
    """A thousand times one text takes little memory of Lua, and took gigabytes of ours."""
    made_by = lua(
        tmp_path, f"local made = {DAILY[7:]} if salt == 'evil' then return ('x'):rep(1000000) end return made"
    )
    tracemalloc.start()
    with pytest.raises(NoNumberError, match="a number of more than 65507 bytes"):
        made_by.make(0, 1000, 100, NOON_S, b"evil")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_rule_that_is_stopped_begins_afresh(tmp_path: Path) -> None:
    """What a rule keeps of a call that was stopped half-way must not shape the next number."""
    body = f"if salt == 'evil' then format, string.format = string.format while true do end end {DAILY} .. salt"
    made_by = lua(tmp_path, body)
    with pytest.raises(RuleCostError, match=r"rule 'r' was stopped: too m"):
        make(made_by, salt=b"evil")
    assert make(made_by, salt=b"ab") == "20261120-000ab"


def test_rule_may_take_many_numbers_of_few_instructions(tmp_path: Path) -> None:
    """The limit is one of a request: a thousand numbers of a costly rule would hold up all others."""
    made_by = lua(tmp_path, f"if salt == 'slow' then for i = 1, 90000 do end end {DAILY} .. salt")
    assert len(made_by.make(0, 1000, 1000, NOON_S, b"")[0]) == 1000
    assert len(made_by.make(0, 1000, 2, NOON_S, b"slow")[0]) == 2
    with pytest.raises(RuleCostError, match="ask for fewer numbers at a time"):
        made_by.make(0, 1000, 1000, NOON_S, b"slow")


@pytest.mark.parametrize("spare", [0, 5_000, 10_000, 100_000, 1_000_000])
def test_memory_that_is_nearly_full_ends_no_process(tmp_path: Path, spare: int) -> None:
    """What is put into a state before Lua runs can't fail: without memory for the salt, the process ended."""
    body = (
        "if #salt > 9 then kept = {} local s = ('x'):rep(5000) pcall(function() local i = 0 while true do i = i + 1 "
        f"kept[i] = s .. i end end) for i = 1, {spare} / 5000 do kept[#kept] = nil end end {DAILY} .. #salt"
    )
    made_by = lua(tmp_path, body)
    for size in (50, 250, 251, 252, 253):
        with pytest.raises(RuleCostError, match="'r' was stopped: "):
            make(made_by, salt=b"s" * size)
        assert make(made_by, salt=b"s" * (size % 9)) == f"20261120-000{size % 9}"


def test_rule_that_nobody_uses_leaves_memory() -> None:
    """Its state of Lua held it, and it held the state: each reload left both."""
    made_by = LuaRule(b"function create_id() return os.date('%Y') end", "r.lua")
    found = weakref.ref(made_by)
    del made_by
    assert found() is None


def test_garbage_is_not_kept(tmp_path: Path) -> None:
    made_by = lua(tmp_path, f"local s = ('x'):rep(200000) for i = 1, 5 do local t = s .. i end {DAILY} .. #salt")
    for _ in range(50):
        assert make(made_by, salt=b"ab") == "20261120-0002"


# --- What it means ----------------------------------------------------------------------------------------------------

COMPARED = b"""
local function counted(...) return {n = select("#", ...), ...} end
local find, match, gmatch, gsub = loadstring((...))(-1, string)
local ours = {find = find, match = match, gmatch = gmatch, gsub = gsub}
local calls = {
    find = function(of, ...) return of.find(...) end,
    match = function(of, ...) return of.match(...) end,
    gmatch = function(of, text, pattern)
        local all = {}
        for a, b, c in of.gmatch(text, pattern) do all[#all + 1] = tostring(a) .. tostring(b) .. tostring(c) end
        return table.concat(all, " ")
    end,
    gsub = function(of, text, pattern, by, most)
        return of.gsub(text, pattern, by, most or 1000)
    end,
    function_gsub = function(of, text, pattern)
        return of.gsub(text, pattern, function(a, b) return a ~= "a" and "<" .. a .. tostring(b) .. ">" end)
    end,
    table_gsub = function(of, text, pattern) return of.gsub(text, pattern, {a = "1", b = 2, [1] = "x", c = false}) end,
}
return function(which, ...)
    local result = {}
    for i, of in ipairs({string, ours}) do
        local made = counted(pcall(calls[which], of, ...))
        for k = 1, made.n do made[k] = tostring(made[k]) end
        result[i] = table.concat(made, "|")
    end
    return result[1], result[2]
end
"""

PIECES = [
    *"abc.^$()[]%*+-?",
    *(
        "%a",
        "%d",
        "%s",
        "%w",
        "%A",
        "%z",
        "%%",
        "%.",
        "%-",
        "%(",
        "[ab]",
        "[^a]",
        "[a-c]",
        "[%a]",
        "[]]",
        "[^]a]",
        "[a-]",
    ),
    *(
        "%b()",
        "%bab",
        "%f[a]",
        "%f[^a]",
        "%f[%z]",
        "%1",
        "%2",
        "%0",
        "()",
        "(a)",
        "(.-)",
        "(a*)",
        ".*",
        ".-",
        ".+",
        "a?",
        "\0",
    ),
]


@pytest.fixture(scope="module")
def both() -> Any:  # noqa: ANN401 - a function of Lua
    return lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True).compile(COMPARED)(PATTERNS)


def without_place(text: bytes) -> str:
    """Return a result without the place of an error, which only Lua's own functions lack or have."""
    return re.sub(r"^(false\|).*?:\d+: ", r"\1", text.decode("latin-1"))


TEXTS = st.lists(st.sampled_from([*"aaabbc()- .1%[]", "\0", "\xe9"]), max_size=9).map("".join)
PATTERN_TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@settings(deadline=None, max_examples=1500)  # machines are shared
@given(
    which=st.sampled_from(["find", "match", "gmatch", "gsub", "function_gsub", "table_gsub"]),
    text=TEXTS,
    pattern=PATTERN_TEXTS,
    more=st.none() | st.integers(-12, 12),
    by=st.sampled_from(["", "x", "%0", "<%1>", "%2", "%%", "%x", "%"]),
)
@example("find", "  a b  ", "^%s*(.-)%s*$", None, "")
@example("gsub", "a-b-c", "%-", 1, "%%")
@example("gmatch", "a=1,b=2", "(%w)=(%w)", None, "")
@example("find", "(a(b)c)", "%b()", None, "")
@example("find", "THE (quick) fox", "%((%a+)%)", None, "")
@example("gsub", "abc", "%f[b]", None, "|")
def test_searches_mean_what_they_mean_in_lua(  # noqa: PLR0917 - what Hypothesis makes
    both: Any,  # noqa: ANN401 - a function of Lua
    which: str,
    text: str,
    pattern: str,
    more: int | None,
    by: str,
) -> None:
    arguments: list[Any] = [text.encode("latin-1"), pattern.encode("latin-1")]
    if which in {"find", "match"}:
        arguments += [more]
    if which == "find" and by == "x":
        arguments += [True]
    if which == "gsub":
        arguments += [by.encode(), more]
    real, ours = both(which.encode(), *arguments)
    assert without_place(ours) == without_place(real)


def test_quick_search_is_left_to_c(tmp_path: Path) -> None:
    """A rule that takes a salt apart costs what it did: the searches of Lua would take fifty times as many steps."""
    body = (
        "for i = 1, salt == 'ab-12' and 4000 or 1 do local a, b = salt:match('^(%a*)-?(%d*)$') end "
        + DAILY
        + " .. salt"
    )
    assert make(lua(tmp_path, body), salt=b"ab-12") == "20261120-000ab-12"


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
