"""The log of a cluster: rows in PostgreSQL, which one node appends to and the others apply."""
