"""The benchmark: a compiled load generator, and a runner that measures our server beside beanstalkd in one run.

Bottom up: `histogram`, `reply` and `connection` are pure; `load` drives open sockets as fast as one core can; `dial`
opens and prepares those sockets; `server` starts, observes and ends a server process; `plan` holds the words of a
benchmark (group, scenario, row); `rows`, `rows_durable`, `floor` and `grid` are the tables of what is measured;
`measure` takes one sample; `machine` says on what; `report` computes medians and ratios; `run` puts it together.
`guest` measures a server that somebody else runs, with the same generator.

Nothing in the server imports this package, so it can be deleted without touching another folder.
"""
