"""The queue itself: jobs, tubes and sessions under commands and time. No I/O, no clock, no randomness."""
