"""HTTP for any servers of the protocol, in a process of its own: pages, an API, metrics, and whether a server is well.

The process is a client of the servers like any other. So nothing that is asked of it can hold the queue up, and it
needs neither the engine nor the log.

From a request down: `serving` (uvicorn and its limits), `security`, `app`; the pages in `metrics`, `health`, `screens`,
`api`; what they share in `actions`, `reading`, `streams`; `servers`, `sampler`, `history` and `single_flight`.
"""
