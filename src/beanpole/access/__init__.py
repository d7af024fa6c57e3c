"""Who may connect, and what each may do: the file of users, and that of their tokens."""
