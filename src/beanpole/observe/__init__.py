"""Looking at servers from outside, with the commands that any client has: what `top`, `doctor` and the console know.

Bottom up: `units` (numbers for people); `sampling` (what a server says of itself and its tubes), `growth` (what changed
between two samples); `top_sampler`, `columns`, `top` and `screen` (a live view: a state machine and what it looks
like); `tail` (jobs as they come); `findings`, `server_checks`, `tube_checks` and `doctor` (what is wrong, and what to
do about it).

No module here opens a connection, reads a clock or touches a terminal: the command line hands in a client, and `now_ns`
as a function.
"""
