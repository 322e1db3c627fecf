"""Pieces of work: how a request names them, and the proof that one is done."""
