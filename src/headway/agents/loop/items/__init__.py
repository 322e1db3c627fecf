"""The runtime keeps the books of a turn: its items, the contexts in which they are done, and doubts about what is written."""
