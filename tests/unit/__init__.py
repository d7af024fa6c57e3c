"""Tests that mirror the source tree, one file a module."""
