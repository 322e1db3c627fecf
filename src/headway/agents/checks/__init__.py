"""Checks of todos: how they are run, and which may run."""
