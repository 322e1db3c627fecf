"""The calls of an answer, which are made once."""
