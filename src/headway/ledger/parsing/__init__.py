"""Parsers of texts that people and models write: checklists in Markdown, writs, and others."""
