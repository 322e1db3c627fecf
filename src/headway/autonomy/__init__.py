"""The pursuit of goals."""
