"""A shop that sends a receipt for each order: its jobs are in `tasks`, the program that does them is `worker`."""
