"""Conversations for readers: lists and searches, timelines, the histories of chat clients, text that is being written."""
