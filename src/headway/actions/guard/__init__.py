"""The guard of agents that Headway does not run: their plans, and whether they may stop."""
