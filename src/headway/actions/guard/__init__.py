"""The guard of agents that Headway does not run: what they plan, and whether they may stop."""
