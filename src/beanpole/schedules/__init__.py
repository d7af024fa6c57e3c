"""Schedules as text, and their times: cron, every, at. Pure: no clock, no queue."""
