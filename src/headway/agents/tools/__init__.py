"""The tools of agents."""
