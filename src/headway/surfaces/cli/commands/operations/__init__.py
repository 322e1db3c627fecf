"""Commands about what operators look at: jobs, dead letters and workers."""
