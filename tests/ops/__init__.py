"""What `ops/` and the image promise, against the programs that read them: promtool, Prometheus, a shell."""
