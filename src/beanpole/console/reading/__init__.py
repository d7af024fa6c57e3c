"""What pages and the API read from servers: jobs, their bodies, failures, sessions, rules."""
