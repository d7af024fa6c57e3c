-- The sandbox of a rule: what it may use. What stops it is the process that it runs in, see lua_child.py.
--
-- Called with the code of the rule and its name, the most bytes of a number, and a function that says how far the rule's
-- zone is from UTC at a moment. Returns `ask`, `at`, `create`, `uses` and a function that collects garbage.

local code, name, id_bytes_max, offset_at = ...
local pcall, error, type, unpack, clock = pcall, error, type, unpack, os.clock
local raw_time, raw_date, sub, rawget = os.time, os.date, string.sub, rawget

local year, month, day, hour, minute, second, time_s, offset_s
local counter_value, counter_step, counters_left, short
local made_of = {}

string.dump, math.random, math.randomseed = nil

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
    pcall = pcall, print = function() end, rawequal = rawequal, rawget = rawget, rawset = rawset, select = select,
    setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
    xpcall = xpcall, _VERSION = _VERSION, string = string, math = math, table = table,
    os = {
        time = function(given) if given then return raw_time(given) end return time_s end,
        date = date,
        difftime = os.difftime,
    },
}
env._G = env

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

-- An object as an error has no text, and its metatable could make one in its own time.
local function sentence(why) return type(why) == "string" and why or "an error that is no text" end

local function called(call, ...)
    local fine, made = pcall(call, ...)
    if not fine then error(sentence(made), 0) end
    return made
end

local chunk, problem = loadstring(code, name)
if not chunk then error(problem, 0) end
setfenv(chunk, env)
called(chunk)

local function ask(which)
    local made = called(rawget(env, which))  -- the rule may have made a function of what is not there
    if type(made) ~= "number" then error("it returns a " .. type(made) .. ", not a number", 0) end
    return made
end

local function at(...) year, month, day, hour, minute, second, time_s, offset_s = ... end

-- Makes `count` numbers, and then up to `ahead` more as long as there is time; what fails among these is left out.
local function create(first, step, left, count, ahead, ahead_s, salt)
    counter_value, counter_step, counters_left, short = first, step, left, false
    local made, create_id = {}, rawget(env, "create_id")
    local end_s = ahead > 0 and clock() + ahead_s
    local size = 0
    made_of = {}
    for i = 1, count + ahead do
        if i > count then  -- to look at the clock takes longer than half a number
            if size > id_bytes_max then break end
            if (i < count + 5 or i % 16 == 0) and clock() > end_s then break end
        end
        local before = counters_left
        local fine, id = pcall(create_id, counter, now, salt)
        if short then break end
        local kind = type(id)
        if fine and counters_left == before then
            fine, id = false, "a number without generate_counter(): numbers would repeat"
        elseif fine and kind == "string" and #id > id_bytes_max then
            fine, id = false, "a number of more than " .. id_bytes_max .. " bytes"
        elseif fine and (id == "" or kind ~= "string" and kind ~= "number") then
            fine, id = false, "the rule made no number"
        end
        if not fine then
            if i > count then break end
            error(sentence(id), 0)
        end
        made[i], made_of[i], size = id, before - counters_left, size + (kind == "string" and #id or 0)
    end
    return short and #made < count, left - counters_left, unpack(made)
end

local function uses() return #made_of, unpack(made_of) end

return ask, at, create, uses, collectgarbage
