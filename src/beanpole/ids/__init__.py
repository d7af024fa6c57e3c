"""The ID service: unique, readable numbers that are made by rules and never repeat.

Bottom up: `sequence` (which number is next), `cycle` (when counting begins anew), `checkdigit`, `template`, `lua` and
`rules` (what a number looks like), `store` (what is durable), `wire`, `service` and `udp` (requests and replies), `app`
(the process). A leaf: nothing of the queue server imports it, and it imports only limits and errors.
"""
