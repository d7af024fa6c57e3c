"""The ID service: unique, readable numbers that are made by rules and never repeat.

Bottom up:

- which number is next: `sequence`, `cycle` (when counting begins anew), `timed` (numbers that begin with the time);
- what it looks like: `checkdigit`, `template`, `lua`, `rule`, and `rules`, which reads a configuration;
- what is durable: `database` and `store`, in a thread of its own by `storethread`, watched by `measured`;
- requests and replies: `wire`, `request`, `window` (repetitions) and `service`, over `udp`, and over HTTP by `http`,
  `routes`, `openapi`, `health`, `metrics` and `web`;
- `app`: the process.

A leaf: nothing of the queue server imports it, and it imports only limits and errors.
"""
