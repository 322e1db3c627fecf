"""What a model is sent."""
