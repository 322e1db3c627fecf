"""Input from the keyboard."""
