"""The built-in model, which follows rules."""
