"""Explanations of past work: forks, steps and comparisons."""
