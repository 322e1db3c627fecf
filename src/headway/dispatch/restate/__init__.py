"""Restate as the dispatcher of jobs."""
