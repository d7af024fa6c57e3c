"""Tests of what the console reads."""
