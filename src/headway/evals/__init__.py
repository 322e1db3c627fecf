"""Evals: suites of cases that are run, repeated and compared. Each attempt has a separate Headway in a separate folder."""
