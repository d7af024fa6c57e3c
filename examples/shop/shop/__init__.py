"""A shop that sends a receipt for each order."""
