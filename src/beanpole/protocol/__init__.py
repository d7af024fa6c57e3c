"""The beanstalkd protocol as values: bytes become commands, and what the engine says becomes bytes. No I/O, no clock."""
