"""HTTP for any servers of the protocol, in a process of its own: metrics for Prometheus, and whether a server is well.

The process is a client of the servers like any other. So nothing that is asked of it can hold the queue up, and it needs
neither the engine nor the log.
"""
