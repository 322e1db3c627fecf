"""The guard of coding assistants: answers to the events of their hooks, and their installation."""
