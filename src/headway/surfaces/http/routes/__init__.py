"""Routes that stream, carry files or wait for another system."""
