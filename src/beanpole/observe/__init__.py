"""Looking at a server from outside, with the commands that any client has: what `top`, `tail` and `doctor` think.

Bottom up: `units` (numbers for people); `sampling` (what a server says of itself and its tubes, and how fast that
changes); `columns`, `keys`, `top` and `screen` (a live view: a state machine and what it looks like); `tail` (jobs as
they come); `findings`, `server_checks`, `tube_checks` and `doctor` (what is wrong, and what to do about it).

No module here opens a connection, reads a clock or touches a terminal: the command line hands in a client, and `now_ns`
as a function.
"""
