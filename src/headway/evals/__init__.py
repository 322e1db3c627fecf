"""Evals: suites of cases that are run, repeated and compared. Each attempt has a Headway of its own, in a folder of its own."""
