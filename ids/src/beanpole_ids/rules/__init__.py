"""Rules: how numbers are counted, what they look like, and why they never repeat. Pure, but for the files it reads."""
