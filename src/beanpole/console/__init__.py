"""HTTP for any servers of the protocol, in a process of its own: metrics for Prometheus, and whether a server is well.

The process is a client of the servers like any other. So nothing that is asked of it can hold the queue up, and it
needs neither the engine nor the log.

From a request down: `serving` (uvicorn and its limits), `hosts`, `app`; `exposition` with its tables `families` and
`legacy`, `health`; `sampler` and what it uses, `latest` and `tubes`; `sample`, which all of it is about.
"""
