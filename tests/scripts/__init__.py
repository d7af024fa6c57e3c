"""Golden scripts: conversations with a queue server, one a file."""
