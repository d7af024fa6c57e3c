"""The command line, one file a verb or a few alike."""
