"""The ID service: unique, readable numbers that are made by rules and never repeat.

Bottom up:

- `rules`: which number is next (`sequence`, `cycle`, and `timed` for numbers that begin with the time), what it looks
  like (`template`, `lua`, `checkdigit`, `fingerprint`), and how a `rule` is read from a `config` and verified;
- `original`: what lxyfirst/id_server has defined: its JSON (`wire`), its configuration, its table;
- `storage`: the `database` and the `store` in it, in a thread of its own (`threaded`), watched (`measured`);
- `request`, `window` (repetitions), `service`: requests and replies;
- `udp`, and `http`: the two ways in;
- `config` reads a configuration of either kind, and `app` is the process.

A leaf: nothing of the queue server imports it, and it imports only limits and errors.
"""
