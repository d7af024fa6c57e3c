"""The beanstalkd protocol as values: bytes become commands, and replies become bytes. No I/O, no clock."""
