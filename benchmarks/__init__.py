"""Scripts that only developers run: `bench`, which is what `make bench` runs, and what it costs itself."""
