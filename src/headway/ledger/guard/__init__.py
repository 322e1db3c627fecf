"""The guard of coding assistants: its values, and the texts that assistants and their users read."""
