"""One run: it looks at the last message and does the next thing."""
