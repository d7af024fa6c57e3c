"""Storage: what is durable of each counter, and which process owns a node."""
