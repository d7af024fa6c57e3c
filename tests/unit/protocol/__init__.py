"""Tests of beanpole.protocol."""
