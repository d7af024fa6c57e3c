"""What people do to jobs, for the command line and the console: one table, and plans without I/O."""
