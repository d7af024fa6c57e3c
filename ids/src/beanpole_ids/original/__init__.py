"""What lxyfirst/id_server, the original, has defined: its JSON, its configuration file and its table."""
