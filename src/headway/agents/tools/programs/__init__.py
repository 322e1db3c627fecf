"""Programs that agents run, in a sandbox."""
