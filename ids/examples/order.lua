-- Orders: O, what the client sends as salt, the day, and six digits that start again each day.
function min_counter() return 0 end
function max_counter() return 999999 end
function reset_seconds() return 86400 end

function create_id(counter, now, salt)
    local number = counter:generate_counter()
    return ("O%s%02d%02d%02d%06d"):format(salt, now:year() % 100, now:month(), now:day(), number)
end
