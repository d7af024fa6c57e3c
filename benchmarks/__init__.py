"""Scripts that only developers run: what the benchmark itself costs. Users have `beanpole bench`."""
