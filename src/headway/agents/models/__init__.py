"""Providers of models, and what they get wrong."""
