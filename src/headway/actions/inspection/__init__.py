"""How work came about: forks, steps, comparisons and explanations."""
