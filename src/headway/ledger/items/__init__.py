"""Pieces of work: how a request names them, and what proves that one is done."""
