"""Surfaces: each parses, calls one operation or action, and renders."""
