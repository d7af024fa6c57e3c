"""The relay: takes jobs from a table of an application's database, where its transactions put them, to a server.

`outbox` is the table, `relay` is what runs.
"""
