"""The conformance kit: golden scripts, each a conversation that a server must answer as written, and what runs them.

`script` reads them, `run` plays one against a target, `kit` starts servers for it. The tests play the same scripts
against the engine, where time costs nothing.
"""
