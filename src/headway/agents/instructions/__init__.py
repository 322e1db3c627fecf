"""Instructions: the texts that an agent reads first."""
