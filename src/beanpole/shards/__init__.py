"""Which of several servers has a tube's jobs: the file that says so, the map, and its answers."""
