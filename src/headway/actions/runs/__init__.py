"""The work of the engine: jobs, runs and sub-goals, and the people and times that they wait for."""
