"""Headway: the work ledger and the engine room of LLM agents."""

__version__ = "0.1.0"
