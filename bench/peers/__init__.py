"""The references. Each script runs in its own virtual environment, with the pinned requirements beside it."""
