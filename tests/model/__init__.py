"""A reference model of the queue in plain Python, and the engine compared with it."""
