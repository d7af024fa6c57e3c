"""The only sockets and the only clock."""
