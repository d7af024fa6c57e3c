"""Tests of the ID service and its client."""
