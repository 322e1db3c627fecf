"""What the engine works on: jobs, runs and sub-goals, and the people and times that they wait for."""
