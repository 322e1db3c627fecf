"""Frozen values: the library returns them, and REST answers with them as documents."""
