"""`/metrics`: what Prometheus reads."""
