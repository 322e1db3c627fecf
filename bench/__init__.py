"""Benchmarks: how fast Headway is, as ratios against references measured in the same run. `python -m bench --list` lists them."""
