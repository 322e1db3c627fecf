"""Turns: their plan, messages to them, memory and live text."""
