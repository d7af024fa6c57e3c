"""What changes while somebody looks: history, rates, and the streams that bring them."""
