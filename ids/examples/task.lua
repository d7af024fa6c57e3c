-- Tasks: the last digit of the year, month, day, and four digits that start again each day.
function min_counter() return 0 end
function max_counter() return 9999 end
function reset_seconds() return 86400 end

function create_id(counter, now, salt)
    return ("%d%02d%02d%04d"):format(now:year() % 10, now:month(), now:day(), counter:generate_counter())
end
