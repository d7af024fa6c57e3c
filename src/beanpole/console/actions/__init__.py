"""What people change: a dry run says what an action would do, a run does it in pieces."""
