"""Runs of agents: the loop, tools, models, roles, transcripts."""
