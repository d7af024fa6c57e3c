-- string.find, match, gmatch and gsub of Lua 5.1 for the sandbox, written in Lua so that their steps are counted.
--
-- Those of C search back and forth without end: four fields and two thousand dashes take centuries, and no instruction
-- of Lua is executed that a hook could count. The real ones are called where the length of the text and the pattern say
-- that they are quick; else the same is done here, function by function as in lstrlib.c. Single characters, classes and
-- sets are always compared by the real `find`, so they mean the same.
--
-- Called with the most steps of a search that is left to C, and the functions for `string`. Returns four functions.

local quick_steps_max, string = ...
local raw_find, raw_match, raw_gmatch, raw_gsub = string.find, string.match, string.gmatch, string.gsub
local byte, sub, char = string.byte, string.sub, string.char
local type, tostring, tonumber, error = type, tostring, tonumber, error
local pairs, unpack, concat = pairs, unpack, table.concat

local ESCAPE, OPEN, CLOSE, SET, SET_END, CARET, DOLLAR = byte("%()[]^$", 1, 7)
local STAR, PLUS, MINUS, MAYBE, BALANCE, FRONTIER, ZERO, NINE = byte("*+-?bf09", 1, 8)
local CAPTURES_MAX, POSITION, UNFINISHED = 32, -2, -1
local LENGTH_MAX, KNOWN_MAX, ITEM_MAX = 100, 100, 20

local quick, gmatch_quick, known_count = {}, {}, 0
-- Bytes of the longest text in which C searches quickly, by pattern.

-- Notes how long a text may be for C to be quick: each repetition may go through the rest of the text for each end of
-- the one before it.
local function learn(pattern)
    if #pattern > LENGTH_MAX then return end
    local _, repetitions = raw_gsub(pattern, "[*+?-]", "")
    local _, others = raw_gsub(pattern, "%%[bf%d]", "")
    local degree = repetitions + others + (byte(pattern) == CARET and 0 or 1)
    if known_count == KNOWN_MAX then
        for each in pairs(quick) do quick[each], gmatch_quick[each] = nil, nil end
        known_count = 0
    end
    local steps = quick_steps_max / #pattern
    quick[pattern], gmatch_quick[pattern] = steps ^ (1 / degree) - 2, steps ^ (1 / (degree + 1)) - 2
    known_count = known_count + 1
end

-- Returns a function that matches a part of the pattern at a place, and one that returns a capture.
local function matcher(text, pattern)
    local text_end, level, starts, lengths = #text, 0, {}, {}
    local ends, items = {}, {}
    local match

    -- The place behind a character, class or set, and a pattern that matches only this.
    local function item_at(at)
        local behind = ends[at]
        if behind then return behind, items[at] end
        local first = byte(pattern, at)
        behind = at + 1
        if first == ESCAPE then
            if behind > #pattern then error("malformed pattern (ends with '%')", 0) end
            behind = behind + 1
        elseif first == SET then
            if byte(pattern, behind) == CARET then behind = behind + 1 end
            repeat
                local each = byte(pattern, behind)
                if not each then error("malformed pattern (missing ']')", 0) end
                behind = behind + 1
                if each == ESCAPE and behind <= #pattern then behind = behind + 1 end
            until byte(pattern, behind) == SET_END
            behind = behind + 1
        end
        local item = first == DOLLAR and "^%$" or "^" .. sub(pattern, at, behind - 1)
        ends[at], items[at] = behind, item
        return behind, item
    end

    local function balanced(place, at)
        local open, close = byte(pattern, at, at + 1)
        if not close then error("unbalanced pattern", 0) end
        if byte(text, place) ~= open then return nil end
        local depth = 1
        for each = place + 1, text_end do
            local found = byte(text, each)
            if found == close then
                depth = depth - 1
                if depth == 0 then return each + 1 end
            elseif found == open then
                depth = depth + 1
            end
        end
        return nil
    end

    local function begin_capture(place, at, length)
        if level >= CAPTURES_MAX then error("too many captures", 0) end
        level = level + 1
        starts[level], lengths[level] = place, length
        local found = match(place, at)
        if not found then level = level - 1 end
        return found
    end

    local function end_capture(place, at)
        local which = level
        while which > 0 and lengths[which] ~= UNFINISHED do which = which - 1 end
        if which == 0 then error("invalid pattern capture", 0) end
        lengths[which] = place - starts[which]
        local found = match(place, at)
        if not found then lengths[which] = UNFINISHED end
        return found
    end

    local function again(place, digit)
        local which = digit - ZERO
        if which < 1 or which > level or lengths[which] == UNFINISHED then error("invalid capture index", 0) end
        local length = lengths[which]
        if length == POSITION or text_end - place + 1 < length then return nil end
        local captured = sub(text, starts[which], starts[which] + length - 1)
        return sub(text, place, place + length - 1) == captured and place + length or nil
    end

    local function is_frontier(place, set)
        local before = place > 1 and sub(text, place - 1, place - 1) or "\0"
        local here = place <= text_end and sub(text, place, place) or "\0"
        return not raw_find(before, set) and raw_find(here, set)
    end

    local function longest(place, last, item, at)
        local behind = place
        if #item <= ITEM_MAX then
            local _, stop = raw_find(text, item .. "*", place)
            behind = stop + 1
        else -- C would compare each character with a long set, and nothing would count it
            while behind <= text_end and raw_find(text, item, behind) do behind = behind + 1 end
        end
        for each = behind, last, -1 do
            local found = match(each, at)
            if found then return found end
        end
        return nil
    end

    local function shortest(place, item, at)
        while true do
            local found = match(place, at)
            if found then return found end
            if place > text_end or not raw_find(text, item, place) then return nil end
            place = place + 1
        end
    end

    function match(place, at)
        while true do
            local first = byte(pattern, at)
            if not first then return place end
            local second = byte(pattern, at + 1)
            if first == OPEN then
                if second == CLOSE then return begin_capture(place, at + 2, POSITION) end
                return begin_capture(place, at + 1, UNFINISHED)
            elseif first == CLOSE then
                return end_capture(place, at + 1)
            elseif first == DOLLAR and not second then
                return place > text_end and place or nil
            elseif first == ESCAPE and second == BALANCE then
                place, at = balanced(place, at + 2), at + 4
                if not place then return nil end
            elseif first == ESCAPE and second == FRONTIER then
                if byte(pattern, at + 2) ~= SET then error("missing '[' after '%f' in pattern", 0) end
                local behind, set = item_at(at + 2)
                if not is_frontier(place, set) then return nil end
                at = behind
            elseif first == ESCAPE and second and second >= ZERO and second <= NINE then
                place, at = again(place, second), at + 2
                if not place then return nil end
            else
                local behind, item = item_at(at)
                local how = byte(pattern, behind)
                if how == STAR then return longest(place, place, item, behind + 1) end
                if how == MINUS then return shortest(place, item, behind + 1) end
                local fits = place <= text_end and raw_find(text, item, place)
                if how == MAYBE then
                    local found = fits and match(place + 1, behind + 1)
                    if found then return found end
                    at = behind + 1
                else
                    if not fits then return nil end
                    if how == PLUS then return longest(place + 1, place + 1, item, behind + 1) end
                    place, at = place + 1, behind
                end
            end
        end
    end

    local function capture(which, from, to)
        if which > level then
            if which > 1 then error("invalid capture index", 0) end
            return sub(text, from, to - 1)
        end
        local length = lengths[which]
        if length == UNFINISHED then error("unfinished capture", 0) end
        if length == POSITION then return starts[which] end
        return sub(text, starts[which], starts[which] + length - 1)
    end

    local function captures(from, to)
        local found = {}
        for each = 1, (from and level == 0) and 1 or level do found[each] = capture(each, from, to) end
        return unpack(found)
    end

    local function start(place, at)
        level = 0
        return match(place, at)
    end

    return start, capture, captures
end

-- A pattern ends at its first zero byte, as a string of C does.
local function cut(pattern)
    local zero = raw_find(pattern, "\0", 1, true)
    return zero and sub(pattern, 1, zero - 1) or pattern
end

local function find_plain(text, wanted, place)
    if wanted == "" then return place, place - 1 end
    local first = sub(wanted, 1, 1)
    place = raw_find(text, first, place, true)
    while place do
        local last = place + #wanted - 1
        if sub(text, place, last) == wanted then return place, last end
        place = raw_find(text, first, place + 1, true)
    end
    return nil
end

local function search(text, pattern, from, is_find, is_plain)
    local place = tonumber(from) or 1
    if place < 0 then place = place + #text + 1 end
    place = place < 1 and 1 or place > #text + 1 and #text + 1 or place - place % 1
    local shown = cut(pattern)
    if is_find and (is_plain or not raw_find(shown, "[%^%$%*%+%?%.%(%[%%%-]")) then
        return find_plain(text, pattern, place)
    end
    local at = byte(shown) == CARET and 2 or 1
    local match, _, captures = matcher(text, shown)
    repeat
        local behind = match(place, at)
        if behind then
            if is_find then return place, behind - 1, captures() end
            return captures(place, behind)
        end
        place = place + 1
    until place > #text + 1 or at == 2
    return nil
end

local function text_of(given) return type(given) == "number" and tostring(given) or given end

-- Whether C is to be called: it is quick, or the arguments are such that it only says what is wrong.
local function is_for_c(text, pattern, number, known)
    if type(text) ~= "string" or type(pattern) ~= "string" or not (number == nil or tonumber(number)) then return true end
    if not known[pattern] then learn(pattern) end
    return #text <= (known[pattern] or -1)
end

local function find(text, pattern, from, is_plain)
    local most = quick[pattern]
    if most and type(text) == "string" and #text <= most then return raw_find(text, pattern, from, is_plain) end
    text, pattern = text_of(text), text_of(pattern)
    if is_for_c(text, pattern, from, quick) then return raw_find(text, pattern, from, is_plain) end
    return search(text, pattern, from, true, is_plain)
end

local function match(text, pattern, from)
    local most = quick[pattern]
    if most and type(text) == "string" and #text <= most then return raw_match(text, pattern, from) end
    text, pattern = text_of(text), text_of(pattern)
    if is_for_c(text, pattern, from, quick) then return raw_match(text, pattern, from) end
    return search(text, pattern, from, false)
end

local function gmatch(text, pattern)
    text, pattern = text_of(text), text_of(pattern)
    if is_for_c(text, pattern, nil, gmatch_quick) then return raw_gmatch(text, pattern) end
    local place = 1
    local match, _, captures = matcher(text, cut(pattern))
    return function()
        while place <= #text + 1 do
            local from, behind = place, match(place, 1)
            if behind then
                place = behind == from and behind + 1 or behind
                return captures(from, behind)
            end
            place = place + 1
        end
        return nil
    end
end

-- What takes the place of a match: the text `by` with its captures.
local function filled(by, capture, from, to, whole)
    local made, count, place = {}, 0, 1
    while true do
        local escape = raw_find(by, "%", place, true)
        count = count + 1
        made[count] = sub(by, place, (escape or #by + 1) - 1)
        if not escape then return concat(made) end
        local found = byte(by, escape + 1) or 0
        count = count + 1
        if found == ZERO then
            made[count] = whole
        elseif found > ZERO and found <= NINE then
            made[count] = tostring(capture(found - ZERO, from, to))
        else
            made[count] = char(found)
        end
        place = escape + 2
    end
end

local function gsub(text, pattern, by, most)
    local longest = quick[pattern]
    if most == nil and longest and type(text) == "string" and #text <= longest then return raw_gsub(text, pattern, by) end
    text, pattern = text_of(text), text_of(pattern)
    local kind = type(by)
    local is_good = kind == "string" or kind == "number" or kind == "function" or kind == "table"
    if not is_good or is_for_c(text, pattern, most, quick) then
        if most == nil then return raw_gsub(text, pattern, by) end
        return raw_gsub(text, pattern, by, most)
    end
    by, most = text_of(by), tonumber(most) or #text + 1
    most = most - most % 1
    local shown = cut(pattern)
    local at = byte(shown) == CARET and 2 or 1
    local start, capture, captures = matcher(text, shown)
    local made, count, place, done = {}, 0, 1, 0
    while done < most do
        local behind = start(place, at)
        if behind then
            done = done + 1
            local value
            if kind == "function" then
                value = by(captures(place, behind))
            elseif kind == "table" then
                value = by[capture(1, place, behind)]
            else
                value = filled(by, capture, place, behind, sub(text, place, behind - 1))
            end
            if not value then
                value = sub(text, place, behind - 1)
            elseif type(value) ~= "string" and type(value) ~= "number" then
                error("invalid replacement value (a " .. type(value) .. ")", 0)
            end
            count = count + 1
            made[count] = value
        end
        if behind and behind > place then
            place = behind
        elseif place <= #text then
            count = count + 1
            made[count] = sub(text, place, place)
            place = place + 1
        else
            break
        end
        if at == 2 then break end
    end
    made[count + 1] = sub(text, place)
    return concat(made), done
end

return find, match, gmatch, gsub
