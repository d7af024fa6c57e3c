"""The ID service: unique, readable numbers that are made by rules and never repeat.

Bottom up:

- `rules`: which number is next (`sequence`, `cycle`, and `timed` for numbers that begin with the time), what it looks
  like (`template`, `lua`, `checkdigit`, `fingerprint`), and how a `rule` is read from a `config` and verified;
- `original`: what lxyfirst/id_server has defined: its JSON (`wire`), its configuration, its table;
- `storage`: the `database` and the `store` in it, in a thread of its own and measured (`threaded`);
- `request`, `window` (repetitions), `service`: requests and replies;
- `datagrams`, and `http`: the two ways in;
- `config` reads a configuration of either kind, and `app` is the process;
- `cli`: the verbs of ``beanpole-ids``.

`client` is for programs that ask for numbers: it imports no database and no interpreter.
"""

__version__ = "0.1.0"
