"""Transcripts: the messages that are sent to a model."""
