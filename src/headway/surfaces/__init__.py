"""What parses, calls one operation or action, and renders."""
