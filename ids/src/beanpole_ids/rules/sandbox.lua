-- The sandbox of a rule: what it may use, and what stops it.
--
-- A hook counts instructions and looks at the clock, because one instruction may be long: `..` copies what memory holds.
-- Functions of C execute none. So those that can be long for the size of what they get are replaced; what is left takes
-- no longer than a look at all that the memory of a state holds.
--
-- Called with the limits, the code of the rule and its name, a function that says how far the rule's zone is from UTC at
-- a moment, and the code of patterns.lua. Returns `ask`, `at`, `create` and
-- a function that collects garbage.

local steps_max, time_s_max, memory_max, look_steps, quick_steps_max, id_bytes_max, code, name, offset_at, patterns = ...
local raw_pcall, error, select, type, tonumber, unpack = pcall, error, select, type, tonumber, unpack
local raw_time, raw_date, clock, collect = os.time, os.date, os.clock, collectgarbage
local raw_rep, raw_sort, sub = string.rep, table.sort, string.sub
local rawget = rawget

-- What a call may still use. `exceeded`: why it may go on no more; until it has ended, each look ends it again.
local steps_left, end_s, inside, exceeded = 0, nil, false, nil

local function look()
    if not inside then return end
    steps_left = steps_left - look_steps
    local now_s = clock()
    end_s = end_s or now_s + time_s_max
    if steps_left < 0 then
        exceeded = "too many instructions"
    elseif now_s > end_s then
        exceeded = "too much time"
    end
    if exceeded then error(exceeded, 0) end
end

debug.sethook(look, "", look_steps)

-- Catching the error does not help.
local function checked(...)
    if exceeded then error(exceeded, 0) end
    return ...
end

-- The handler of the real xpcall would be called within the hook, where no hook stops it.
local function xpcall(call, handler)
    local function handled(fine, ...)
        if fine then return true, ... end
        return false, select(2, checked(raw_pcall(handler, ...)))
    end
    return handled(checked(raw_pcall(call)))
end

local function less(one, other) return one < other end

string.dump, math.random, math.randomseed = nil
string.find, string.match, string.gmatch, string.gsub = loadstring(patterns, "=patterns")(quick_steps_max, string)
string.gfind = nil

function string.rep(text, count)
    local number = tonumber(count)
    if type(text) == "string" and number then
        if text == "" then return "" end
        if not (number * #text <= memory_max) then error("not enough memory", 0) end
    end
    return raw_rep(text, count)
end

-- What `#` says of a table with holes may be a thousand times what it holds, and C goes through it all.
for _, each in ipairs({"insert", "remove", "foreachi"}) do
    local raw = table[each]
    table[each] = function(list, ...)
        if type(list) == "table" and #list > memory_max / 16 then
            error("bad argument #1 to '" .. each .. "' (a list with holes)", 2)
        end
        return raw(list, ...)
    end
end

-- A format of a thousand long numbers takes long.
local function few(list, from, to)
    if (tonumber(to) or #list) - (tonumber(from) or 1) > 250 then error("too many results to unpack", 2) end
    return unpack(list, from or 1, to or #list)
end

local raw_insert = table.insert

function table.insert(list, place, ...)
    local number = tonumber(place)
    if select("#", ...) > 0 and number and not (number >= 1 and number < 2 ^ 31) then
        error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
    return raw_insert(list, place, ...)
end

function table.sort(list, before)  -- in C, no instruction would be executed
    if type(before) ~= "function" then return raw_sort(list, before or less) end
    return raw_sort(list, function(one, other) return before(one, other) end)
end

local year, month, day, hour, minute, second, time_s, offset_s
local counter_value, counter_step, counters_left, short

local function date(format, given)
    format, given = format or "%c", given or time_s
    if not given then error("a rule has no time before a number is made", 2) end
    if type(format) == "string" and sub(format, 1, 1) == "!" then return raw_date(format, given) end
    local offset = given == time_s and offset_s or offset_at(tonumber(given))  -- an object takes memory on its way
    if not offset then error("bad argument #2 to 'date' (no such time)", 2) end
    return raw_date("!" .. format, given + offset)
end

local env = {
    assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
    rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
    tonumber = tonumber, tostring = tostring, type = type, unpack = few, _VERSION = _VERSION,
    string = string, math = math, table = table, print = function() end,
    pcall = function(...) return checked(raw_pcall(...)) end,
    xpcall = xpcall,
    os = {
        time = function(given) if given then return raw_time(given) end return time_s end,
        date = date,
        difftime = os.difftime,
    },
}
env._G = env

local function begin() steps_left, end_s, exceeded = steps_max, nil, nil end

-- Ends a call that has failed. What it leaves is collected first: outside of a call, no memory is the end of the process.
local function fail(why)
    collect()
    error(exceeded or (type(why) == "string" and why) or "an error that is no text", 0)
end

local function limited(call, ...)
    begin()
    inside = true
    local fine, made = raw_pcall(call, ...)
    inside = false
    if not fine or exceeded then fail(made) end
    return made
end

local function generate_counter()
    if counters_left == 0 then
        short = true
        error("no counter is left", 0)
    end
    local value = counter_value
    counters_left, counter_value = counters_left - 1, value + counter_step
    return value
end

local counter = {generate_counter = generate_counter}
local now = {
    year = function() return year end, month = function() return month end, day = function() return day end,
    hour = function() return hour end, minute = function() return minute end, second = function() return second end,
}

local chunk, problem = loadstring(code, name)
if not chunk then error(problem, 0) end
setfenv(chunk, env)
limited(chunk)

local function ask(which)
    local made = limited(rawget(env, which))  -- the rule may have made a function of what is not there
    if type(made) ~= "number" then error("it returns a " .. type(made) .. ", not a number", 0) end
    return made
end

local function at(...) year, month, day, hour, minute, second, time_s, offset_s = ... end

local function create(first, step, left, count, salt)
    counter_value, counter_step, counters_left, short = first, step, left, false
    local made, create_id = {}, rawget(env, "create_id")
    begin()
    for i = 1, count do
        local before = counters_left
        inside = true
        local fine, id = raw_pcall(create_id, counter, now, salt)
        inside = false
        if short then break end
        if fine and counters_left == before then
            fine, id = false, "a number without generate_counter(): numbers would repeat"
        end
        if not fine or exceeded then fail(id) end
        local kind = type(id)
        if kind == "string" and #id > id_bytes_max then fail("a number of more than " .. id_bytes_max .. " bytes") end
        made[i] = (kind == "string" or kind == "number") and id or false
    end
    return short, left - counters_left, unpack(made)
end

return ask, at, create, collect
