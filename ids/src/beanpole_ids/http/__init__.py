"""The HTTP API: numbers, counters, health, metrics, and a description of them. Imported only if it is configured."""
