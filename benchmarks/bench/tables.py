"""All tables of rows, by name."""

from benchmarks.bench import floor, grid, rows, rows_durable
from benchmarks.bench.plan import Row

TABLES: dict[str, tuple[Row, ...]] = {
    "speed": rows.ROWS,
    "durable": rows_durable.ROWS,
    "floor": floor.ROWS,
    "grid": grid.ROWS,
}
"""The rows: of the server in memory, with a log, beside the least that a server can do, and everything else."""
