"""What an agent reads first."""
