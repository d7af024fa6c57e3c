"""The log as segments on a disk: the write path, and the recovery at a start."""
