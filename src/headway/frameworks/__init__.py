"""Headway's tools inside other agents' frameworks: one module each, which is the door of its library."""
