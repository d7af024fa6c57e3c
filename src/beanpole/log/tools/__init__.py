"""What looks at a log or mends it from outside: `beanpole wal check`, `stat`, `dump`, `salvage`."""
